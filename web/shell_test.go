package web

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// every byte, and every kind of character that a page does not show as it is.
func allBytes() string {
	var b bytes.Buffer
	for i := 1; i < 256; i++ {
		b.WriteByte(byte(i))
	}
	return b.String() + "\u202E\u2066\uFEFF\u2028 ünï ' '' \\ \\n %s %% $HOME `id` $(id) \"x\" !! ~ # *\n\n"
}

func TestAShellGivesBackWhatWasQuoted(t *testing.T) {
	for _, text := range []string{"", "plain", "-n", "it's", "~root", "a b", "=x", allBytes(), "\n", "ends with newlines\n\n", "'", "\x1b"} {
		quoted := shellQuote(text)
		if string(inert([]byte(quoted))) != quoted {
			t.Errorf("%q would be shown as another text than is copied: %q", text, quoted)
		}
		if got := shell(t, "printf '%s' "+quoted); got != text {
			t.Errorf("%q became %q by %s", text, got, quoted)
		}
	}
}

func TestAShellPrintsExactlyTheBytes(t *testing.T) {
	for _, text := range []string{"", "-n", "%s", `\n`, "\x00", allBytes() + "\x00\xff", "0\x001"} {
		printed := shellPrint([]byte(text))
		if string(inert([]byte(printed))) != printed {
			t.Errorf("%q would be shown as another text than is copied: %q", text, printed)
		}
		if got := shell(t, printed); got != text {
			t.Errorf("%q became %q by %s", text, got, printed)
		}
	}
}

// shell runs a line in the system's POSIX shell.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(line + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(out)
}
