package web

func actionRoutes() []route { return nil }
