package web

func keyRoutes() []route { return nil }
