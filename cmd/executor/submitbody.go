package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"executor/client"
)

// referTo reads the flags about bodies that are not simply given.
func (f *submitFlags) referTo(s *client.Submission) error {
	switch f.bodyKind {
	case "", string(client.BodyReplayable):
	case string(client.BodyOneShot):
		s.OneShot = true
	default:
		return usage(fmt.Errorf("--body-kind is %q: use replayable or one_shot", f.bodyKind))
	}
	given := 0
	for _, one := range []bool{f.body != "", f.bodyFile != "", f.bodyRef != "", len(f.parts) > 0} {
		if one {
			given++
		}
	}
	if given > 1 {
		return usage(errors.New("--body, --body-file, --body-ref and --part exclude one another"))
	}
	if f.bodyRef != "" {
		file, rest, err := reference(f.bodyRef)
		if err != nil || len(rest) > 0 {
			return usage(fmt.Errorf("--body-ref: %w", orElse(err, "write PATH;from=FILE or PATH;size=BYTES;sha256=HEX")))
		}
		s.BodyFile = file
	}
	for i, text := range f.parts {
		part, err := readPart(text)
		if err != nil {
			return usage(fmt.Errorf("--part %d: %w", i+1, err))
		}
		s.Parts = append(s.Parts, part)
	}
	return nil
}

func orElse(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

// readPart reads NAME=CONTENT and what stands behind it: ;type=TYPE ;filename=NAME.
func readPart(text string) (client.Part, error) {
	name, content, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return client.Part{}, errors.New("write NAME=TEXT, NAME=@FILE or NAME=ref:PATH;from=FILE")
	}
	p := client.Part{Name: name}
	ref, isRef := strings.CutPrefix(content, "ref:")
	if isRef {
		file, rest, err := reference(ref)
		if err != nil {
			return p, err
		}
		p.File = file
		return p, describe(&p, rest)
	}
	content, rest := trailing(content, "type", "filename")
	if file, isFile := strings.CutPrefix(content, "@"); isFile {
		body, err := os.ReadFile(file)
		if err != nil {
			return p, fmt.Errorf("read the part: %w", err)
		}
		p.Bytes = slices.Concat([]byte{}, body)
	} else {
		p.Value = content
	}
	return p, describe(&p, rest)
}

// describe takes the type and the name of a part's file.
func describe(p *client.Part, settings map[string]string) error {
	for name, value := range settings {
		switch name {
		case "type":
			p.ContentType = value
		case "filename":
			p.Filename = value
		default:
			return fmt.Errorf("%s is not known here", name)
		}
	}
	return nil
}

// trailing takes the known ;name=value off the end of a text.
func trailing(text string, known ...string) (string, map[string]string) {
	found := map[string]string{}
	for {
		at := strings.LastIndexByte(text, ';')
		if at < 0 {
			return text, found
		}
		name, value, ok := strings.Cut(text[at+1:], "=")
		if !ok || !slices.Contains(known, name) {
			return text, found
		}
		found[name], text = value, text[:at]
	}
}

// reference reads PATH and, behind it, where size and digest come from; rest are the
// other settings.
func reference(text string) (file *client.BodyFile, rest map[string]string, err error) {
	path, found := trailing(text, "from", "size", "sha256", "type", "filename")
	f := &client.BodyFile{Path: path, SHA256: found["sha256"]}
	copied, hasCopy := found["from"]
	size, hasSize := found["size"]
	switch {
	case hasCopy && (hasSize || f.SHA256 != ""):
		return nil, nil, errors.New("give from, or size and sha256")
	case hasCopy:
		if err := measure(f, copied); err != nil {
			return nil, nil, err
		}
	default:
		n, err := strconv.ParseInt(size, 10, 64)
		if err != nil || n < 0 || f.SHA256 == "" {
			return nil, nil, errors.New("a reference needs from=FILE, or size=BYTES and sha256=HEX")
		}
		f.Size = n
	}
	for _, name := range []string{"from", "size", "sha256"} {
		delete(found, name)
	}
	return f, found, nil
}

// measure takes size and digest from a copy of the file.
func measure(f *client.BodyFile, name string) error {
	copied, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	defer copied.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, copied); err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}
