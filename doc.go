// Package fairlimit lets programs on many machines share one strict upstream quota in order. A caller asks Redis once, gets the exact time to
// sleep, sleeps once, goes. Nobody polls, nobody overtakes, nobody starves.
package fairlimit
