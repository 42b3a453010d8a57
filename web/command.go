package web

func commandRoutes() []route { return nil }
