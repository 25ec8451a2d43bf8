package catalogstore

import goruntime "runtime"

// Waiting lets others run and tells how many changes wait for being written.
func (c *Catalog) Waiting() int {
	goruntime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue)
}
