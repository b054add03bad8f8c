package serve

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed openapi.json
var openAPIText []byte

// pageSecurity allows the script and the style of the page, and no others.
var pageSecurity = contentSecurity + "; script-src " + hashOf("script") + "; style-src " + hashOf("style")

func hashOf(element string) string {
	_, text, _ := strings.Cut(pageText, "<"+element+">")
	text, _, _ = strings.Cut(text, "</"+element+">")
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (s *Server) page(w http.ResponseWriter, _ *request) (any, error) {
	w.Header().Set("Content-Security-Policy", pageSecurity)
	s.send(w, http.StatusOK, "text/html; charset=utf-8", []byte(pageText))
	return nil, nil
}

func (s *Server) openAPI(w http.ResponseWriter, _ *request) (any, error) {
	s.send(w, http.StatusOK, "application/json", openAPIText)
	return nil, nil
}
