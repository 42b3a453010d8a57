package web

func operatorRoutes() []route { return nil }
