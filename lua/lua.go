// Package lua holds the scripts that run inside Redis, one file and one variable each, and the one way to run them.
//
// Every file begins with its contract: keys, arguments, returns.
package lua

import _ "embed"

var (
	//go:embed fair.lua
	fair string

	// Fair is the reservation queue: it grants, gives back and reports.
	Fair = New(fair)
)
