package api

import (
	"errors"
	"net/http"
)

// uploadProblem is what kept an upload of at most so many bytes from being read, nil if
// nothing did.
func uploadProblem(err error, limit int64) error {
	var over *http.MaxBytesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return tooLarge(limit)
	default:
		return &failure{code: ProblemCodeMalformedBody, detail: "The request body ended early, or stood still for too long."}
	}
}
