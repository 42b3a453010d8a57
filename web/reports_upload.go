package web

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"executor/commands"
	"executor/reconcile"
)

const (
	// uploadStall bounds how long an upload may bring nothing.
	uploadStall = 30 * time.Second
	// uploadLinger bounds how long one that is refused is still read.
	uploadLinger = 5 * time.Second
	// maxUploadFields and maxUploadField bound what comes before the file.
	maxUploadFields = 50
	maxUploadField  = 64 << 10 // bytes
)

// upload reads the body of a long request as it comes. The server's time for
// reading begins anew with each read: a body may take as long as it needs, but not
// stand still.
type upload struct {
	body    io.Reader
	control *http.ResponseController
	err     error // why it could not be read to its end
}

func newUpload(v *visit, limit int64) *upload {
	return &upload{body: http.MaxBytesReader(v.w, v.r.Body, limit), control: http.NewResponseController(v.w)}
}

func (u *upload) Read(b []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(uploadStall))
	_ = u.control.SetWriteDeadline(time.Now().Add(2 * uploadStall)) // for the answer to what was read
	n, err := u.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// linger reads on for a while without regard to what comes: to a browser that is
// still sending, a connection that is cut hides the answer.
func (u *upload) linger() {
	if u.err != nil {
		return
	}
	_ = u.control.SetReadDeadline(time.Now().Add(uploadLinger))
	_, _ = io.Copy(io.Discard, u.body)
	_ = u.control.SetReadDeadline(time.Time{})
}

// reportUpload takes a report. The form comes as multipart/form-data (RFC 7578) in
// the order of its inputs: the file stands last in the page, so that all that is to
// be known about it is there when its first byte comes, and it goes line by line
// into the store without ever being whole in memory. What follows the file is not
// read.
func (s *Server) reportUpload(v *visit) error {
	body := newUpload(v, reconcile.MaxReportBytes+maxUploadFields*maxUploadField)
	v.r.Body = io.NopCloser(body)
	f := newReportForm()
	report, err := s.takeReport(v, f)
	if err == nil {
		v.tell("good", "The file is here. It is compared now; nothing changes before somebody applies it.")
		return v.redirect("/reports/" + report.ID.String())
	}
	var invalid *commands.Invalid
	switch {
	case body.err != nil, errors.Is(err, errUploadCut), errors.Is(err, io.ErrUnexpectedEOF):
		f.Problem = "The file did not arrive whole, or is larger than " + number(reconcile.MaxReportBytes>>20) + " MB. Nothing was compared; choose it again."
	case errors.As(err, &invalid):
		f.refuse(invalid)
	default:
		return err
	}
	body.linger()
	return s.showReportForm(v, http.StatusUnprocessableEntity, f)
}

// takeReport reads the form up to its file, and the file into the store.
func (s *Server) takeReport(v *visit, f *reportForm) (reconcile.Report, error) {
	parts, err := v.r.MultipartReader()
	if err != nil {
		return reconcile.Report{}, badRequest("The form could not be read. Go back and send it again.")
	}
	file, err := f.readFields(parts)
	if err != nil {
		return reconcile.Report{}, err
	}
	request := f.request(v, file.FileName())
	if file.FileName() == "" {
		f.wrong("file", "Choose a file.")
	}
	if len(f.Wrong) > 0 {
		return reconcile.Report{}, &commands.Invalid{Detail: "The form is not complete."}
	}
	return s.doubts.Upload(v.r.Context(), request, file)
}

// readFields reads what comes before the file, and returns the file unread.
func (f *reportForm) readFields(parts *multipart.Reader) (*multipart.Part, error) {
	for range maxUploadFields {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil, badRequest("There is no file in the form. Go back and choose one.")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUploadCut, err)
		}
		if part.FormName() == "file" {
			return part, nil
		}
		value, err := io.ReadAll(io.LimitReader(part, maxUploadField+1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUploadCut, err)
		}
		if len(value) > maxUploadField {
			return nil, badRequest("The field " + part.FormName() + " is too long.")
		}
		if !storable(url.Values{part.FormName(): {string(value)}}) {
			return nil, badRequest("The form could not be read. Go back and send it again.")
		}
		f.set(part.FormName(), string(value))
	}
	return nil, badRequest("The form has too many fields.")
}
