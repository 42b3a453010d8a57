package web

func reportRoutes() []route { return nil }
