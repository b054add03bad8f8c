// Package llmlimit lets the requests of a language model's SDK wait for their
// turn in a [fairlimit.Queue] that counts requests and tokens, on all machines
// together.
//
//	queue, err := fairlimit.NewQueue(rdb, "claude-sonnet", fairlimit.PerMinute(50),
//		fairlimit.WithUnit(llmlimit.InputTokens, fairlimit.PerMinute(30_000)),
//		fairlimit.WithUnit(llmlimit.OutputTokens, fairlimit.PerMinute(8_000)))
//	...
//	client := anthropic.NewClient(option.WithHTTPClient(
//		&http.Client{Transport: llmlimit.New(queue, llmlimit.Anthropic)}))
//
// Providers limit each model, or group of models, by itself: make a queue for
// each. The queue needs the units of its provider, or every call returns an error
// that matches [fairlimit.ErrUnknownUnit].
//
//	provider   units                      reserved                          settled
//	OpenAI     Tokens                     the larger of the most that may   never
//	                                      be written and characters ÷ 4,
//	                                      times n
//	Azure      Tokens                     characters ÷ 4 and the most that  to the total that was used
//	                                      may be written, times n
//	Anthropic  InputTokens, OutputTokens  what such calls used before       to what was used; input
//	                                                                        read from a cache is free
//	Gemini     InputTokens                what such calls used before       to the input
//
// A request of another kind, such as one that counts tokens or is not JSON, takes
// one call. A 429 or 529 pauses the queue for everybody: for as long as the answer
// says, or a second if it does not.
//
// # The rules of the providers
//
// They were read on 2026-11-23, in copies of these pages:
//
//   - OpenAI, developers.openai.com/api/docs/guides/rate-limits: a limit counts
//     "the maximum of max_tokens and the estimated number of tokens based on the
//     character count of your request". Requests that fail count as well. The page
//     tells of no refund. "Times n" is from github.com/openai/openai-python/issues/605.
//     Give the most that may be written as close to what you need as you can:
//     it is what counts.
//   - Azure, learn.microsoft.com/azure/ai-services/openai/how-to/quota: prompt,
//     max_tokens and best_of count when the request comes in, by an estimate from
//     its characters. What was not used weighs until the request ends
//     (learn.microsoft.com/en-us/answers/questions/1381398). Requests are judged
//     over 1 or 10 s: give the quota of calls a Burst of a sixth.
//   - Anthropic, platform.claude.com/docs/en/api/rate-limits: input is estimated
//     at the start and corrected, and what was read from a cache does not count,
//     except for Haiku 3.5. Output counts as it is written, and max_tokens does not.
//     So output counts later than its turn, by up to the time that an answer
//     takes: give the queue a guard that long, see [fairlimit.WithGuard]. Until 2025
//     the page said that max_tokens counts until the request ends.
//   - Gemini, ai.google.dev/gemini-api/docs/rate-limits: requests and input tokens
//     a minute, and requests a day. Its 429 says in the body how long to wait.
//
// Bedrock is not among them: its SDK signs requests above the transport, and its
// streams are no text. It counts the input and max_tokens, and in the end output
// five times for newer models (repost.aws/articles/ARfUsSkaWeSLiWZbv0OVSG1Q): use
// [fairlimit.Queue.Take] around the call, and Settle.
//
// # What is reserved
//
// A character is one of the body of the request, except in long stretches of
// base64, each of which counts 1,600 tokens: Anthropic's figure for a large
// image. For Anthropic and Gemini, what a model's last 256 calls used decides
// (package estimate, its usual quantile): tokens for each character of input,
// and tokens of output. Before the first answer that is a quarter of the
// characters, and at most 512 tokens of output. Such a guess is never more than
// the quota allows, so that it does not keep a request from being sent.
//
// What is queued before the first answer stays reserved by such a guess, and
// that is often many times too much. So make one call first, or bound the calls
// under way.
//
// # What is settled
//
// The usage that the answer tells, when its reader has come to the end, in JSON
// or in a stream of events. If a stream of Anthropic's is closed early, its input
// is known, and its output is taken from what was seen. A unit of which the answer
// tells nothing counts as it was reserved. That is so for errors, for streams of
// Azure without stream_options.include_usage, and for the input of a stream of more
// than 1 MiB, if only its beginning tells that.
package llmlimit
