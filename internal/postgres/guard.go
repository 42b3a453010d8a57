package postgres

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
)

// guardScript outlives its parent, however that ends: the kernel then closes
// the pipe that read waits on. It stops the server, and removes the directory
// if it was given one. The parent's "dismissed" means that it did all that.
//
// A guard beats PR_SET_PDEATHSIG here: it works on every Unix, can clean up
// afterwards, and does not hang on the life of one thread of the parent.
const guardScript = `
read -r word
[ "$word" = dismissed ] && exit 0
for signal in INT QUIT KILL; do
	kill -s $signal "$1" 2>/dev/null
	tries=0
	while kill -0 "$1" 2>/dev/null && [ $tries -lt 50 ]; do
		sleep 0.1 2>/dev/null || sleep 1
		tries=$((tries+1))
	done
	kill -0 "$1" 2>/dev/null || break
done
[ -n "$2" ] && rm -rf -- "$2"
exit 0`

// guard is the process that ends the server when this one dies.
type guard struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func startGuard(as account, pid int, remove string) (*guard, error) {
	cmd := as.command(context.Background(), "/", "/bin/sh", "-c", guardScript, "guard", strconv.Itoa(pid), remove)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that watches over PostgreSQL: %w", err)
	}
	return &guard{cmd, in}, nil
}

// dismiss ends the guard once the server is gone, so that it never signals a
// process that was given the server's number since.
func (g *guard) dismiss() error {
	_, err := io.WriteString(g.in, "dismissed\n")
	_ = g.in.Close()
	if err != nil {
		_ = g.cmd.Process.Kill()
	}
	_ = g.cmd.Wait()
	return nil
}
