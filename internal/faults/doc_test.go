package faults_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheDocumentNamesTestsThatExist reads docs/RELIABILITY.md. A name there
// may end with "…".
func TestTheDocumentNamesTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	document, err := os.ReadFile(filepath.Join(root, "docs", "RELIABILITY.md"))
	require.NoError(t, err)
	var tests strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	}))
	names := regexp.MustCompile("`(Test\\w+)(…?)`").FindAllStringSubmatch(string(document), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		declared := "func " + name[1]
		if name[2] == "" {
			declared += "("
		}
		assert.True(t, strings.Contains(tests.String(), declared), "there is no %s%s", name[1], name[2])
	}
	for _, file := range regexp.MustCompile("`([\\w/]+_test\\.go)`").FindAllStringSubmatch(string(document), -1) {
		assert.FileExists(t, filepath.Join(root, file[1]))
	}
}
