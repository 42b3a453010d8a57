package web

func searchRoutes() []route { return nil }
