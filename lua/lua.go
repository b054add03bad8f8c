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

	//go:embed window.lua
	window string

	//go:embed window_take.lua
	windowTake string

	//go:embed window_back.lua
	windowBack string

	//go:embed window_release.lua
	windowRelease string

	//go:embed window_read.lua
	windowRead string

	//go:embed window_rule.lua
	windowRule string

	//go:embed window_forget.lua
	windowForget string

	// The sliding window: each script is window.lua, what they share, and its own part.
	WindowTake    = New(window + windowTake)    // grants
	WindowBack    = New(window + windowBack)    // gives back
	WindowRelease = New(window + windowRelease) // frees permits, whoever took them
	WindowRead    = New(window + windowRead)    // reports
	WindowRule    = New(window + windowRule)    // writes the rate
	WindowForget  = New(window + windowForget)  // deletes
)
