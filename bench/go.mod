module github.com/fairlimit/fairlimit/bench

go 1.25.0

require github.com/fairlimit/fairlimit v0.0.0

replace github.com/fairlimit/fairlimit => ../
