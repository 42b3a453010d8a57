package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"executor/client"
)

// A caller says what it does in each of the four cases; leaving one out does not
// compile.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(executor))
	defer service.Close()
	c, err := client.New(client.Config{URL: service.URL, APIKey: "exk_example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	cmd, err := c.Run(context.Background(), client.Submission{
		Key:       "order-42",
		Upstream:  "ledger",
		Operation: "create_payment",
		Params:    map[string]string{"account": "a1"},
		Body:      json.RawMessage(`{"amount": 100}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Match(cmd.Outcome,
		func(o client.Success) string { return "paid: " + o.Result.Reference },
		func(o client.Rejected) string { return "refused: " + o.Rejection.Message },
		func(o client.Unresolved) string { return "nobody knows yet; do not pay again" },
		func(o client.Cancelled) string { return "not paid; it may be submitted again under a new key" },
	))
	// Output: paid: pay_9
}

// executor stands in for the service.
func executor(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id": "0193", "state": "success", "final": true, "outcome": {"state": "success", "reason": "applied",
		"decided_at": "2026-11-01T00:00:00Z", "result": {"status": 201, "reference": "pay_9", "incomplete": false}}}`)
}
