package simulator

import (
	"fmt"
	"strings"
)

// Help says what can be tried at a simulator with this base URL.
func Help(url string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `An upstream that misbehaves on request.

It serves
  POST /v1/accounts/{account}/payments   make a payment, once per Idempotency-Key
  POST /v1/charges                       the same for a charge
  PUT  /v1/accounts/{account}            set an account: idempotent by nature
  GET  /v1/payments/{id}                 one payment; also /v1/charges/{id}, /v1/accounts/{account}
  GET  /v1/payments?client_reference=    search; also key=, account=, created_after=, created_before=
  POST /oauth/token                      a token, for any client
  POST /_hooks/{name}                    take a webhook; GET lists what came, PUT says how to answer
  POST /_notices                         send a signed notice about a payment

A request says what shall go wrong, in the header Sim-Behavior or in the member "sim" of its body:
  curl -i %[1]s/v1/charges -H 'Idempotency-Key: k1' -H 'Sim-Behavior: commit,drop' -d '{"amount": 100}'
  curl -i %[1]s/v1/charges -H 'Idempotency-Key: k2' -d '{"amount": 100, "sim": "times=2;status=503"}'

Steps
`, url)
	for _, s := range Steps() {
		fmt.Fprintf(&b, "  %-42s %s\n", s[0], s[1])
	}
	fmt.Fprintf(&b, `
What arrived, and what happened
  curl '%[1]s/_ledger?key=k1'
  curl '%[1]s/_ledger/effects?key=k1'
  curl '%[1]s/_ledger/lookups?key=k1'
  curl '%[1]s/_ledger/counts?key=k1'
  curl -X DELETE %[1]s/_ledger
  curl -X PUT %[1]s/_behavior -d '{"GET /v1/charges": "status=503"}'
  curl -X PUT %[1]s/_hooks/shop -d '{"behavior": "times=2;status=503"}'
`, url)
	return b.String()
}
