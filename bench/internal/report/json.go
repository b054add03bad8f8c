package report

import (
	"encoding/json"
	"io"
)

// JSON writes the report for a program, as one line.
func (r Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
