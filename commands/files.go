package commands

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"executor/internal/bodyfiles"
	"executor/upstreams"
)

// compareWithin bounds the comparing of one submission's files, its wait for a turn
// included: its caller waits for the answer.
const compareWithin = 15 * time.Second

// FilesUnavailable says that a file of a submission cannot be read now: nothing was
// accepted, and the same submission is good once its volume is there.
type FilesUnavailable struct {
	Pointer string // into the submission
	Detail  string // for callers
	Cause   error
}

func (e *FilesUnavailable) Error() string { return fmt.Sprintf("%s: %v", e.Pointer, e.Cause) }

// checkFiles opens every file that a submission refers to: what is not there, or is
// another one, is refused while its caller still listens. What cannot be read now is a
// *FilesUnavailable, unless something else is wrong for good.
func (s *Store) checkFiles(ctx context.Context, sub Submission) ([]upstreams.FieldError, error) {
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	var (
		fields []upstreams.FieldError
		away   error
	)
	check := func(pointer string, f *bodyfiles.File) {
		if f == nil {
			return
		}
		bad, err := fileError(pointer, s.files.Verify(ctx, sub.Tenant, *f))
		if bad != nil {
			fields = append(fields, *bad)
		}
		if away == nil {
			away = err
		}
	}
	check("/body_ref", sub.BodyFile)
	for i, p := range sub.Parts {
		check("/parts/"+strconv.Itoa(i)+"/body_ref", p.File)
	}
	if len(fields) > 0 {
		return fields, nil
	}
	return nil, away
}

// fileError tells what a submission can never be from what its caller may repeat.
func fileError(pointer string, err error) (*upstreams.FieldError, error) {
	var (
		mismatch *bodyfiles.Mismatch
		gone     *bodyfiles.Unavailable
	)
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &mismatch):
		return &upstreams.FieldError{Pointer: pointer, Code: "mismatch", Detail: "The file " + mismatch.Detail + "."}, nil
	case errors.Is(err, bodyfiles.ErrNoRoot):
		return &upstreams.FieldError{Pointer: pointer, Code: "unavailable", Detail: "This deployment has no folder for files of bodies (EXECUTOR_BODY_DIR)."}, nil
	case errors.As(err, &gone):
		return nil, &FilesUnavailable{pointer, gone.Detail, err}
	default:
		return nil, &FilesUnavailable{pointer, "it cannot be read", err}
	}
}
