package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommandLineCanBeTypedAgainAndTellsNoPassword(t *testing.T) {
	for want, args := range map[string][]string{
		"go run ./bench":                                     nil,
		"go run ./bench -quota 20/1s":                        {"-quota", "20/1s"},
		"go run ./bench -out 'a b'":                          {"-out", "a b"},
		`go run ./bench -out 'it'\''s'`:                      {"-out", "it's"},
		"go run ./bench -json ''":                            {"-json", ""},
		"go run ./bench -redis redis://...@host:1/2":         {"-redis", "redis://me:secret@host:1/2"},
		"go run ./bench -redis=redis://...@host:1":           {"-redis=redis://me:secret@host:1"},
		"go run ./bench -redis redis://host:1":               {"-redis", "redis://host:1"},
		"go run ./bench -redis redis://...@host:1 -seed 2":   {"-redis", "redis://me:sec%ret@host:1", "-seed", "2"},
		"go run ./bench -redis=localhost:6379 -scenario=all": {"-redis=localhost:6379", "-scenario=all"},
	} {
		require.Equal(t, want, commandLine(args))
	}
}
