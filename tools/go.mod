// The programs that this project is checked with, pinned, and the one that makes
// docs/index.html. The module is not part of the workspace: what these programs
// require has no say in what the library is built with.
module github.com/fairlimit/fairlimit/tools

go 1.25.0

tool (
	honnef.co/go/tools/cmd/staticcheck
	mvdan.cc/gofumpt
)

require github.com/yuin/goldmark v1.8.7

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.38.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/tools v0.48.0 // indirect
	honnef.co/go/tools v0.7.0 // indirect
	mvdan.cc/gofumpt v0.11.0 // indirect
)
