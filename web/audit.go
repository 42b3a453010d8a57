package web

func auditRoutes() []route { return nil }
