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
// A server refuses with RESOURCE_EXHAUSTED or UNAVAILABLE. It says how long it
// wants to be left alone in a google.rpc.RetryInfo among the details, or else
// in the metadata grpc-retry-pushback-ms. The Interceptor then pauses the
// limiter for everybody who shares it. If the limiter cannot pause, as on
// package window, the Interceptor holds back only its own calls.
//
// # Retries
//
// An [Interceptor] never makes a call again. Put the interceptor that retries
// earlier in the chain, so that each attempt waits for a turn of its own:
//
//	grpc.WithChainUnaryInterceptor(retry.UnaryClientInterceptor(), limit.Unary)
//
// Retries and hedging of a service config happen below all interceptors. Their
// further attempts do not wait, and the Interceptor hears only the last one. If
// the quota is strict, switch them off with grpc.WithDisableRetry. A call that
// did not reach the server's code may still be sent once more.
//
// # Servers
//
// [Limit] fits the ratelimit interceptors of go-grpc-middleware.
package grpclimit
