package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Limits of the texts that people give about a command, in characters.
const (
	maxWhy       = 2000 // a reason, a note, a message
	maxReference = 500  // of evidence, or of the upstream
	maxShort     = 200  // a code, a person
)

// form reads one object of a request body, member by member. A member that may
// be left out is left out by null too.
type form struct {
	r      *jsonReader
	fields *complaints
}

// member is one that a form knows, and how its value is read.
type member struct {
	name     string
	required bool
	nullable bool // null is a value of its own
	read     func(f *form) error
}

// required makes a member one that must be there.
func required(m member) member {
	m.required = true
	return m
}

// decodeForm reads a document that is one object with these members and no
// others.
func decodeForm(src []byte, members ...member) error {
	return decodeObject(src, func(r *jsonReader, fields *complaints) error {
		f := &form{r, fields}
		return f.read(members)
	})
}

func (f *form) read(members []member) error {
	base := f.r.pointer()
	seen := make(map[string]bool, len(members))
	err := f.r.object(func(name []byte) error {
		i := slices.IndexFunc(members, func(m member) bool { return m.name == string(name) })
		if i < 0 {
			return f.fields.unknown(f.r, name)
		}
		m := members[i]
		if f.r.kind() == 'n' && !m.required && !m.nullable {
			return f.r.skip()
		}
		seen[m.name] = true
		return m.read(f)
	})
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.required && !seen[m.name] {
			f.fields.add(base+"/"+m.name, "required", "The field %s is required.", m.name)
		}
	}
	return nil
}

// complain is about the value that was just read.
func (f *form) complain(code, format string, args ...any) {
	f.fields.add(f.r.pointer(), code, format, args...)
}

// filled reads a text that is not empty.
func (f *form) filled(max int) (value string, ok bool, err error) {
	value, ok, err = textField(f.r, f.fields, max)
	if ok && strings.TrimSpace(value) == "" {
		f.complain("required", "This field must not be empty.")
		ok = false
	}
	return value, ok, err
}

// textMember is a text that is not empty.
func textMember(name string, into *string, max int) member {
	return member{name: name, read: func(f *form) (err error) {
		*into, _, err = f.filled(max)
		return err
	}}
}

// emptyTextMember is a text for which empty and left out differ.
func emptyTextMember(name string, into **string, max int) member {
	return member{name: name, read: func(f *form) error {
		value, ok, err := textField(f.r, f.fields, max)
		if ok {
			*into = &value
		}
		return err
	}}
}

// personMember is somebody's name, or null for nobody.
func personMember(name string, into *string) member {
	return member{name: name, nullable: true, read: func(f *form) (err error) {
		if f.r.kind() == 'n' {
			*into = ""
			return f.r.skip()
		}
		*into, _, err = f.filled(maxShort)
		return err
	}}
}

// wordMember is one word of a list.
func wordMember[T ~string](name string, into *T, list ...T) member {
	return member{name: name, read: func(f *form) error {
		word, ok, err := readWord(f, list)
		if ok {
			*into = word
		}
		return err
	}}
}

func readWord[T ~string](f *form, list []T) (word T, ok bool, err error) {
	value, ok, err := textField(f.r, f.fields, maxName)
	if ok && !slices.Contains(list, T(value)) {
		f.complain("unknown_value", "This field is one of %s.", strings.Trim(fmt.Sprint(list), "[]"))
		ok = false
	}
	return T(value), ok, err
}

// wordsMember is an array of words of a list.
func wordsMember[T ~string](name string, into *[]string, list ...T) member {
	return listMember(name, into, func(f *form) (string, bool, error) {
		word, ok, err := readWord(f, list)
		return string(word), ok, err
	})
}

// namesMember is an array of names that somebody else knows.
func namesMember(name string, into *[]string) member {
	return listMember(name, into, func(f *form) (string, bool, error) { return f.filled(maxName) })
}

// maxList bounds an array of words or names.
const maxList = 100

// listMember leaves an array that is not nil, even if nothing is in it.
func listMember(name string, into *[]string, item func(f *form) (string, bool, error)) member {
	return member{name: name, read: func(f *form) error {
		if f.r.kind() != '[' {
			return f.fields.here(f.r, "type", "This field is an array.")
		}
		*into = []string{}
		return f.r.array(func(i int) error {
			if i >= maxList {
				return f.surplus(i)
			}
			value, ok, err := item(f)
			if ok {
				*into = append(*into, value)
			}
			return err
		})
	}}
}

// surplus reads past an item that is too many, and complains of the first.
func (f *form) surplus(i int) error {
	if i == maxList {
		f.complain("too_many", "This field has %d items at most.", maxList)
	}
	return f.r.skip()
}

// flagMember is true or false.
func flagMember(name string, into *bool) member {
	return member{name: name, read: func(f *form) error {
		switch f.r.kind() {
		case 't':
			*into = true
		case 'f':
			*into = false
		default:
			return f.fields.here(f.r, "type", "This field is true or false.")
		}
		return f.r.skip()
	}}
}

// optionalFlagMember tells false from left out.
func optionalFlagMember(name string, into **bool) member {
	var value bool
	m := flagMember(name, &value)
	read := m.read
	m.read = func(f *form) error {
		if c := f.r.kind(); c == 't' || c == 'f' {
			*into = &value
		}
		return read(f)
	}
	return m
}

// countMember is a whole number from 0 on.
func countMember(name string, into **int) member {
	return member{name: name, read: func(f *form) error {
		if c := f.r.kind(); c != '-' && (c < '0' || '9' < c) {
			return f.fields.here(f.r, "type", "This field is a whole number.")
		}
		raw, err := f.r.raw()
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 0 {
			f.complain("format", "This field is a whole number from 0 on.")
			return nil
		}
		*into = &n
		return nil
	}}
}

// idMember is a UUID.
func idMember(name string, into *uuid.UUID) member {
	return member{name: name, read: func(f *form) error {
		value, ok, err := textField(f.r, f.fields, maxName)
		if err != nil || !ok {
			return err
		}
		if *into, ok = parseID(value); !ok {
			f.complain("format", "This field is a UUID.")
		}
		return nil
	}}
}

// momentMember is a time.
func momentMember(name string, into **time.Time) member {
	return member{name: name, read: func(f *form) error {
		value, ok, err := textField(f.r, f.fields, maxName)
		if err != nil || !ok {
			return err
		}
		t, err := time.Parse(time.RFC3339, value)
		if err != nil {
			f.complain("format", "This field is a time such as 2026-12-01T00:00:00Z.")
			return nil
		}
		*into = &t
		return nil
	}}
}

// spanMember is a duration.
func spanMember(name string, into **time.Duration) member {
	return member{name: name, read: func(f *form) error {
		value, ok, err := textField(f.r, f.fields, maxName)
		if err != nil || !ok {
			return err
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			f.complain("format", "This field is a duration such as 90m or 24h.")
			return nil
		}
		*into = &d
		return nil
	}}
}

// labelsMember is an object of texts. With numbers, JSON numbers are taken too,
// as they are written.
func labelsMember(name string, into *map[string]string, numbers bool) member {
	return member{name: name, read: func(f *form) (err error) {
		d := submissionReader{r: f.r, fields: f.fields}
		if numbers {
			*into, err = d.texts(true)
			return err
		}
		*into, err = d.texts(false)
		return err
	}}
}

// objectMember is an object with members of its own.
func objectMember(name string, members ...member) member {
	return member{name: name, read: func(f *form) error {
		if f.r.kind() != '{' {
			return f.fields.here(f.r, "type", "This field is an object.")
		}
		return f.read(members)
	}}
}
