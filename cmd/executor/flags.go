package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// envAnnotation names, on a flag, the variable that sets it when the command
// line does not.
const envAnnotation = "executor_env"

// fromEnv ties the flag called name to an environment variable. A command line
// beats the variable, the variable beats the default.
func fromEnv(flags *pflag.FlagSet, name, variable string) {
	f := flags.Lookup(name)
	f.Usage += " [" + variable + "]"
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[envAnnotation] = []string{variable}
}

// applyEnv sets the flags that were left out from their variables. NAME_FILE
// names a file that holds the value, for secrets mounted as files. An empty
// variable counts as not set.
func applyEnv(flags *pflag.FlagSet, getenv func(string) string) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		names := f.Annotations[envAnnotation]
		if f.Changed || len(names) == 0 {
			return
		}
		value, from, err := lookupEnv(names[0], getenv)
		if err != nil {
			errs = append(errs, err)
			return
		}
		if value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, misread(f.Value.Type(), value, err)))
		}
	})
	return usage(errors.Join(errs...))
}

// misread says in words what the parser of numbers and switches says in Go.
func misread(kind, value string, err error) error {
	switch kind {
	case "int", "int64", "intSlice":
		return fmt.Errorf("%q is not a whole number that fits", value)
	case "bool":
		return fmt.Errorf("%q is neither true nor false", value)
	default:
		return err
	}
}

// lookupEnv reads a variable or the file that its _FILE sister names, and says
// which of them it was.
func lookupEnv(name string, getenv func(string) string) (value, from string, err error) {
	path := getenv(name + "_FILE")
	if value = getenv(name); path == "" {
		return value, name, nil
	}
	if value != "" {
		return "", "", fmt.Errorf("%s and %s_FILE are both set: set one of them", name, name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	return strings.TrimRight(string(b), "\r\n"), name + "_FILE", nil
}

// args makes what cobra says of wrong arguments a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return usage(fmt.Errorf("%w\nUsage: %s", err, cmd.UseLine()))
		}
		return nil
	}
}

// pairs collects a repeated k=v flag.
type pairs map[string]string

func (p *pairs) String() string { return "" }
func (p *pairs) Type() string   { return "name=value" }

func (p *pairs) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not of the form name=value", s)
	}
	if _, again := (*p)[name]; again {
		return fmt.Errorf("%q is given twice", name)
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}

// headerPairs collects a repeated header flag, written name=value or, as on
// the wire, "Name: value".
type headerPairs map[string]string

func (p *headerPairs) String() string { return "" }
func (p *headerPairs) Type() string   { return "name=value" }

func (p *headerPairs) Set(s string) error {
	at := strings.IndexAny(s, ":=")
	if at <= 0 {
		return fmt.Errorf("%q is not of the form name=value", s)
	}
	return (*pairs)(p).Set(s[:at] + "=" + strings.TrimSpace(s[at+1:]))
}
