package web

func accountRoutes() []route { return nil }
