package web

func upstreamRoutes() []route { return nil }
