package commands

import (
	"context"
	"errors"
	"strconv"

	"executor/internal/bodyfiles"
	"executor/upstreams"
)

// checkFiles opens every file that a submission refers to: what is not there, or is
// another one, is refused while its caller still listens.
func (s *Store) checkFiles(ctx context.Context, sub Submission) ([]upstreams.FieldError, error) {
	var fields []upstreams.FieldError
	check := func(pointer string, f *bodyfiles.File) {
		if f == nil || ctx.Err() != nil {
			return
		}
		if err := s.files.Verify(ctx, sub.Tenant, *f); err != nil {
			fields = append(fields, fileError(pointer, err))
		}
	}
	check("/body_ref", sub.BodyFile)
	for i, p := range sub.Parts {
		check("/parts/"+strconv.Itoa(i)+"/body_ref", p.File)
	}
	return fields, ctx.Err()
}

func fileError(pointer string, err error) upstreams.FieldError {
	var mismatch *bodyfiles.Mismatch
	switch {
	case errors.As(err, &mismatch):
		return upstreams.FieldError{Pointer: pointer, Code: "mismatch", Detail: "The file " + mismatch.Detail + "."}
	case errors.Is(err, bodyfiles.ErrNoRoot):
		return upstreams.FieldError{Pointer: pointer, Code: "unavailable", Detail: "This deployment has no folder for files of bodies (EXECUTOR_BODY_DIR)."}
	default:
		return upstreams.FieldError{Pointer: pointer, Code: "unavailable", Detail: "The file cannot be read now."}
	}
}
