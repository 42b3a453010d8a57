package attempts

import (
	"errors"
	"fmt"

	"executor/internal/bodyfiles"
)

// assembledBytes bounds what the bodies made of files may take in one process while
// they are sent.
const assembledBytes = 256 << 20

// errRoom: other bodies made of files are under way; this one waits for its turn.
var errRoom = errors.New("no room for a body made of files at the moment")

// assemble puts the files of a body into their places, in memory, so that what is
// sent are the bytes that were compared. release gives the room back. A
// *bodyfiles.Mismatch is for good; any other error may pass.
func (e *Engine) assemble(w *work) (release func(), err error) {
	files := w.Request.Files
	if len(files) == 0 {
		return func() {}, nil
	}
	size := int64(len(w.Request.Body))
	for _, f := range files {
		size += f.Size
	}
	if e.assembled.Add(size) > assembledBytes && size < assembledBytes {
		e.assembled.Add(-size)
		return func() {}, errRoom
	}
	release = func() { e.assembled.Add(-size) }
	body, err := joined(w.Request.Body, files, func(f bodyfiles.File) ([]byte, error) { return e.files.Read(w.Tenant, f) }, size)
	if err != nil {
		release()
		return func() {}, err
	}
	w.Request.Body = body
	return release, nil
}

func joined(stored []byte, files []bodyfiles.Placed, read func(bodyfiles.File) ([]byte, error), size int64) ([]byte, error) {
	body := make([]byte, 0, size)
	from := int64(0)
	for _, f := range files {
		if f.At < from || f.At > int64(len(stored)) {
			return nil, fmt.Errorf("the file %q has no place in the body", f.Path)
		}
		content, err := read(f.File)
		if err != nil {
			return nil, err
		}
		body = append(append(body, stored[from:f.At]...), content...)
		from = f.At
	}
	return append(body, stored[from:]...), nil
}
