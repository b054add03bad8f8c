package grpclimit

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pushback is the metadata by which a server says when to try again. See
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback.
const pushback = "grpc-retry-pushback-ms"

// retryAfter is how long the server wants to be left alone, if it refused and
// says so: in the details of the status, or else in the first metadata that
// does.
func retryAfter(err error, all ...metadata.MD) (time.Duration, bool) {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.ResourceExhausted && s.Code() != codes.Unavailable {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.RetryDelay.CheckValid() == nil {
			return info.RetryDelay.AsDuration(), true
		}
	}
	for _, md := range all {
		for _, value := range md.Get(pushback) {
			if ms, err := strconv.ParseUint(value, 10, 63); err == nil { // below 0: do not retry
				return time.Duration(min(ms, math.MaxInt64/1_000_000)) * time.Millisecond, true
			}
		}
	}
	return 0, false
}
