package web

import (
	"context"

	"executor/commands"
)

func actionRoutes() []route { return nil }

// actionsView is what may be done about a command.
type actionsView struct{}

func (s *Server) actionsOf(context.Context, *visit, commands.Command) (actionsView, error) {
	return actionsView{}, nil
}
