package api

import (
	_ "embed" // the document
	"fmt"
	"net/http"
	"sync"

	"github.com/goccy/go-yaml"
)

// document is openapi.yaml as it is written.
//
//go:embed openapi.yaml
var document []byte

// documentJSON converts the document when it is first asked for.
func documentJSON() func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		converted, err := yaml.YAMLToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("convert openapi.yaml: %w", err)
		}
		return converted, nil
	})
}

// OpenapiJSON serves the document as JSON.
func (s *Server) OpenapiJSON(w http.ResponseWriter, _ *http.Request) error {
	converted, err := s.document()
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", converted)
}

// OpenapiYAML serves the document.
func (s *Server) OpenapiYAML(w http.ResponseWriter, _ *http.Request) error {
	return write(w, http.StatusOK, "application/yaml", document)
}

// GetProblem says what a problem code means.
func (s *Server) GetProblem(w http.ResponseWriter, r *http.Request) error {
	m, ok := meaningOf(ProblemCode(pathParam(r, "code")))
	if !ok {
		return &failure{code: ProblemCodeNotFound, detail: "There is no such problem code."}
	}
	return writeJSON(w, http.StatusOK, "application/json", ProblemMeaning{Code: m.code, Title: m.title, Status: m.status, Meaning: m.text})
}
