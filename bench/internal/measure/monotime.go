// Package monotime is one clock for all processes of a machine: times read in
// different processes may be compared and subtracted.
//
// On Unix it is CLOCK_MONOTONIC, which no step of the wall clock moves and on
// which Go's own timers run. Elsewhere it is the wall clock.
package measure
