// Package lua assembles the scripts that run inside Redis and runs them.
//
// An engine has a folder here under its own name. A file in it is a part: one
// section of a script, with its contract at its top. A script is several parts
// in a row, so that a part that several scripts need is written once.
package lua

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed */*.lua
var parts embed.FS

// Assemble makes a script of an engine's parts, each named by its file without
// the ending. It does no I/O: the server learns the source when the script first
// runs. It panics for a part that does not exist. Call it only while packages are
// initialised.
//
// An error that Redis reports for a line of the script names the part's file
// and line instead.
func Assemble(engine string, names ...string) *Script {
	var source strings.Builder
	var lines lineMap
	for _, name := range names {
		part := engine + "/" + name
		text, err := parts.ReadFile(part + ".lua")
		if err != nil {
			panic(fmt.Sprintf("lua: no part %q: %v", part, err))
		}
		lines.add(part, text)
		source.Write(text)
	}
	s := New(source.String())
	s.lines = lines
	assembled = append(assembled, s)
	return s
}

var assembled []*Script

// Assembled returns all scripts that were assembled so far, for those who check
// them.
func Assembled() []*Script { return assembled }

// Parts names the parts that the script is assembled of.
func (s *Script) Parts() []string { return s.lines.names }

// lineMap tells for each line of an assembled script where it comes from.
type lineMap struct {
	names  []string
	firsts []int // line of the script on which each part begins, from 1
	next   int
}

func (m *lineMap) add(name string, text []byte) {
	if m.next == 0 {
		m.next = 1
	}
	m.names, m.firsts = append(m.names, name), append(m.firsts, m.next)
	m.next += strings.Count(string(text), "\n")
}

var scriptLine = regexp.MustCompile(`@?user_script:(\d+)`)

// locate names the part in an error of Redis that names a line of the script.
func (m *lineMap) locate(err error) error {
	var reply redis.Error
	if len(m.names) == 0 || !errors.As(err, &reply) || !scriptLine.MatchString(reply.Error()) {
		return err
	}
	return refused(located(scriptLine.ReplaceAllStringFunc(reply.Error(), m.name)))
}

func (m *lineMap) name(match string) string {
	line, err := strconv.Atoi(match[strings.LastIndexByte(match, ':')+1:])
	if err != nil {
		return match
	}
	part := sort.SearchInts(m.firsts, line+1) - 1
	if part < 0 {
		return match
	}
	return fmt.Sprintf("lua/%s.lua:%d", m.names[part], line-m.firsts[part]+1)
}

// located is an error of Redis that names a file.
type located string

var _ redis.Error = located("")

func (l located) Error() string { return string(l) }
func (located) RedisError()     {}
