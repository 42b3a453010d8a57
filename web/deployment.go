package web

func deploymentRoutes() []route { return nil }
