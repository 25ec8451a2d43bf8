package plan

import "github.com/streamd-io/streamd/connectors"

// RecordsOnly reports whether the checkpoint of the query is commit records alone:
// it has no state, and no rows wait in it for their epoch.
func (c *Compiled) RecordsOnly() bool {
	return c.logical != nil && len(c.Plan.Operators) == 0 && c.Delivery.Offer.Visibility == connectors.AtOnce
}
