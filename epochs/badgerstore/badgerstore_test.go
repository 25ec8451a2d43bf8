package badgerstore_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func opener(dir string) storetest.Opener {
	return func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{MinFree: 1 << 20})
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Opener { return opener(t.TempDir()) })
}
