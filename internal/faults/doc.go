// Package faults has tests only: what a limiter does when something breaks.
// They use real servers, real connections, and a proxy between the two that
// loses, delays, holds or cuts. docs/RELIABILITY.md lists them, fault by fault.
package faults
