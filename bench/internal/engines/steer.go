package engines

import (
	"context"

	"github.com/fairlimit/fairlimit"
	"github.com/fairlimit/fairlimit/window"
)

func nothing(context.Context, Setup) (string, error) { return "nobody did anything", nil }

func requeue(ctx context.Context, s Setup) (string, error) {
	q, err := fairlimit.Open(s.Redis, s.Name)
	if err == nil {
		err = q.Requeue(ctx)
	}
	return "somebody requeued", err
}

func setQuota(ctx context.Context, s Setup) (string, error) {
	q, err := fairlimit.Open(s.Redis, s.Name)
	if err == nil {
		err = q.SetQuotas(ctx, s.Quota)
	}
	return "the quota was set to " + s.Quota.String(), err
}

// setRate keeps what has gone in the window.
func setRate(ctx context.Context, s Setup) (string, error) {
	admin, err := window.Open(s.Redis, s.Name)
	if err == nil {
		_, err = admin.UpdateRate(ctx, window.Rate{Permits: s.Quota.Permits, Per: s.Quota.Per}, true)
	}
	return "the rate was set to " + s.Quota.String(), err
}
