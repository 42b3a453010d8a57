package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"time"

	"executor/commands"
	"executor/internal/upload"
	"executor/reconcile"
)

const (
	// maxUploadFields and maxUploadField bound what comes before the file.
	maxUploadFields = 50
	maxUploadField  = 64 << 10 // bytes
	// explainWithin bounds the making of the page that says why a file was refused.
	explainWithin = 10 * time.Second
)

// reportUpload takes a report. The form comes as multipart/form-data (RFC 7578) in
// the order of its inputs: the file stands last in the page, so that all that is to
// be known about it is there when its first byte comes, and it goes line by line
// into the store without ever being whole in memory. What follows the file is not
// read.
func (s *Server) reportUpload(v *visit) error {
	body := upload.New(v.w, v.r, reconcile.MaxReportBytes+maxUploadFields*maxUploadField)
	v.r.Body = body
	f := newReportForm()
	report, err := s.takeReport(v, f)
	if err == nil {
		v.tell("good", "The file is here. It is compared now; nothing changes before somebody applies it.")
		return v.redirect("/reports/" + report.ID.String())
	}
	var invalid *commands.Invalid
	switch {
	case body.Err() != nil, errors.Is(err, errUploadCut), errors.Is(err, io.ErrUnexpectedEOF):
		f.Problem = "The file did not arrive whole, or is larger than " + number(reconcile.MaxReportBytes>>20) + " MB. Nothing was compared; choose it again."
	case errors.As(err, &invalid):
		f.refuse(invalid)
	default:
		return err
	}
	body.Linger()
	// To the server a caller whose body breaks off, or takes too long, is one who has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), explainWithin)
	defer cancel()
	v.r = v.r.WithContext(ctx)
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
