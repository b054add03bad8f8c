// Package grpclimit lets the calls of a gRPC client wait for their turn, and
// holds everybody back when the server says that it has had enough.
//
//	limiter, err := fairlimit.New(rdb, "ledger", fairlimit.PerSecond(20))
//	if err != nil {
//		return err
//	}
//	limit := &grpclimit.Interceptor{Limiter: limiter}
//	conn, err := grpc.NewClient(address, credentials,
//		grpc.WithChainUnaryInterceptor(limit.Unary),
//		grpc.WithChainStreamInterceptor(limit.Stream),
//		grpc.WithDisableRetry(), // see below
//	)
//
// A server refuses with RESOURCE_EXHAUSTED or UNAVAILABLE. How long it wants to
// be left alone stands in a google.rpc.RetryInfo among the details, or else in
// the metadata grpc-retry-pushback-ms. A limiter that can pause is then paused
// for everybody who shares it. One that cannot, such as one on package window,
// leaves it to the [Interceptor], which holds back its own calls only.
//
// # Retries
//
// An Interceptor never makes a call again. What retries has to stand above it,
// so that each attempt waits for a turn of its own: an interceptor that comes
// earlier in the chain.
//
//	grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(), limit.Unary)
//
// Retries and hedging of a service config happen below all interceptors. Their
// further attempts do not wait, and only the last one is heard. Switch them off
// with [grpc.WithDisableRetry] where the quota is strict. A call that
// did not reach the server's code may still be sent once more.
//
// # Servers
//
// [Limit] fits the ratelimit interceptors of go-grpc-middleware.
package grpclimit
