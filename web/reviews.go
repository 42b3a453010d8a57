package web

func reviewRoutes() []route { return nil }
