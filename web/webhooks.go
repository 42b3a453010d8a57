package web

func webhookRoutes() []route { return nil }
