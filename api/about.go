package api

import (
	"errors"
	"slices"
	"strings"

	"executor/commands"
)

// aboutQuery moves what a store says of a filter to the parameters that it came
// from: /metadata_min/amount is the parameter metadata_min.amount.
func aboutQuery(err error) error {
	var invalid *commands.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	f := problemFor(err)
	f.code = ProblemCodeInvalidParameter
	for i, field := range f.fields {
		f.fields[i].Pointer, f.fields[i].Parameter = "", strings.Replace(strings.TrimPrefix(field.Pointer, "/"), "/", ".", 1)
	}
	return f
}

// aboutFilter moves what a store says of a filter to where it stands in a bulk
// request.
func aboutFilter(err error) error {
	var invalid *commands.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	f := problemFor(err)
	for i, field := range f.fields {
		name, _, _ := strings.Cut(strings.TrimPrefix(field.Pointer, "/"), "/")
		if slices.Contains([]string{"kind", "evidence", "older_than", "metadata_min", "metadata_max"}, name) {
			f.fields[i].Pointer = "/filter" + field.Pointer
		}
	}
	return f
}

// aboutUpload moves what a store says of a parameter to where it came from: a
// pointer into a document begins with a slash.
func aboutUpload(err error) error {
	var invalid *commands.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	f := problemFor(err)
	for i, field := range f.fields {
		if field.Pointer != "" && !strings.HasPrefix(field.Pointer, "/") {
			f.fields[i].Pointer, f.fields[i].Parameter = "", field.Pointer
		}
	}
	return f
}

// aboutText moves what the store says of a reason to where a note has its text.
func aboutText(err error) error {
	var invalid *commands.Invalid
	if !errors.As(err, &invalid) {
		return err
	}
	f := problemFor(err)
	for i, field := range f.fields {
		if field.Pointer == "/reason" {
			f.fields[i].Pointer = "/text"
		}
	}
	return f
}
