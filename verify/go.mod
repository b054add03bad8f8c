module github.com/fairlimit/fairlimit/verify

go 1.25.0

require (
	github.com/fairlimit/fairlimit v0.1.0
	github.com/redis/go-redis/v9 v9.19.0
	github.com/stretchr/testify v1.10.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
