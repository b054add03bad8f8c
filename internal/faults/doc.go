// Package faults has tests only: what a limiter does when something breaks. They
// use real servers, and connections that lose, cut or swallow what is sent.
package faults
