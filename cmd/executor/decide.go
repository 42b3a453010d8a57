package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"executor/outcome"
)

const decideLong = `Decide reads facts, one JSON object a line, and prints what follows from them, one
JSON object a line. It asks the function that the workers ask, and nothing else: no
clock, no database, no network. Jitter takes its upper bound.

A line needs "deadline" and, unless it has attempts, "now". What else is left out counts
as follows: operation.idempotency none, retention unknown, promises of the upstream false,
retry.max_attempts 5, min_attempt_window 1s, backoff {"initial": "1s", "max": "30s",
"jitter": "none"}, when_budget_empty wait, body replayable, budget_tokens 10. Unknown
members are errors. An answer or a status counts only where response headers arrived.

A bad line gives {"error": "…"}; the others are still judged, and the exit status is 1.

With --check the lines are worked examples, {"name", "why", "in", "out"}: every member of
"out" must be equal in the decision. What differs is printed.`

const decideExample = `  echo '{"deadline": "2026-01-01T01:00:00Z", "attempts": [{"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:05Z", "evidence": "sent_no_response"}]}' | executor decide
  executor decide --check outcome/testdata/decide.jsonl`

func newDecideCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "decide",
		Short:   "Show what would be decided on given facts",
		Long:    decideLong,
		Example: decideExample,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("check") {
				return checkFile(file, cmd.OutOrStdout())
			}
			return untilDone(cmd.Context(), func() error {
				return decideLines(cmd.InOrStdin(), cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().StringVar(&file, "check", "", "run the worked examples in this `file`")
	return cmd
}

// untilDone runs work and leaves it behind when ctx ends: a read from a
// terminal cannot be called off.
func untilDone(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decideLines judges every line of in. It ends with an error if a line was bad.
func decideLines(in io.Reader, out io.Writer) error {
	total, bad := 0, 0
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	err := eachLine(in, func(_ int, line []byte) error {
		total++
		d, err := decideLine(line)
		if err != nil {
			bad++
			return enc.Encode(badLine{err.Error()})
		}
		return enc.Encode(d)
	})
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d of %d lines were bad", bad, total)
	}
	return err
}

type badLine struct {
	Error string `json:"error"`
}

func decideLine(line []byte) (decisionJSON, error) {
	facts, err := parseFacts(line)
	if err != nil {
		return decisionJSON{}, err
	}
	return newDecisionJSON(outcome.Decide(facts)), nil
}

// checkFile runs a file of worked examples.
func checkFile(name string, out io.Writer) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return checkExamples(f, out)
}

// checkExamples prints how each decision differs from its example and ends with
// an error if any does.
func checkExamples(in io.Reader, out io.Writer) error {
	total, wrong := 0, 0
	err := eachLine(in, func(number int, line []byte) error {
		total++
		name, differs, err := checkExample(line)
		if err != nil {
			differs = []string{err.Error()}
		}
		if len(differs) == 0 {
			return nil
		}
		wrong++
		if name == "" {
			name = fmt.Sprintf("line %d", number)
		}
		for _, d := range differs {
			if _, err := fmt.Fprintf(out, "%s: %s\n", name, d); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case wrong > 0:
		return fmt.Errorf("%d of %d examples are decided otherwise", wrong, total)
	case total == 0:
		return errors.New("there are no examples in it")
	}
	_, err = fmt.Fprintf(out, "%d examples, all decided as they say\n", total)
	return err
}

// checkExample names every member of the example's "out" that the decision
// does not share.
func checkExample(line []byte) (name string, differs []string, err error) {
	var example struct {
		Name string          `json:"name"`
		Why  string          `json:"why"`
		In   json.RawMessage `json:"in"`
		Out  map[string]any  `json:"out"`
	}
	if err := parseStrict(line, &example); err != nil {
		return "", nil, err
	}
	if len(example.In) == 0 || len(example.Out) == 0 {
		return example.Name, nil, errors.New(`needs "in" and "out"`)
	}
	decision, err := decideLine(example.In)
	if err != nil {
		return example.Name, nil, err
	}
	got, err := membersOf(decision)
	if err != nil {
		return example.Name, nil, err
	}
	for _, member := range slices.Sorted(maps.Keys(example.Out)) {
		if want := example.Out[member]; !reflect.DeepEqual(got[member], want) {
			differs = append(differs, fmt.Sprintf("%s is %s, not %s (%s)", member, inJSON(got[member]), inJSON(want), example.Why))
		}
	}
	return example.Name, differs, nil
}

// membersOf is v as one who parses it would see it.
func membersOf(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var members map[string]any
	return members, json.Unmarshal(text, &members)
}

func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// eachLine calls f with every line that is not blank, however long it is.
func eachLine(in io.Reader, f func(number int, line []byte) error) error {
	r := bufio.NewReader(in)
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := f(number, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
