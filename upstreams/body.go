package upstreams

import (
	"mime"
	"strings"
)

// body encodes the body and puts the key into it, if that is its place.
func (r *rendering) body(key string) ([]byte, string) {
	o := r.operation
	switch {
	case o.Body == BodyNone && r.input.HasBody:
		r.fail("/body", "forbidden", "This operation has no body.")
		return nil, ""
	case o.Body == BodyNone:
		return nil, ""
	case !r.input.HasBody:
		r.fail("/body", "required", "This operation needs a body ("+o.Body+").")
		return nil, ""
	}
	if o.Idempotency.Key.In != KeyInBody {
		key = ""
	}
	media, parameters, err := mime.ParseMediaType(r.input.ContentType)
	if r.input.ContentType != "" && (err != nil || !validHeaderValue(r.input.ContentType)) {
		r.fail("/content_type", "invalid", "This is not a content type.")
		return nil, ""
	}
	switch o.Body {
	case BodyRaw:
		return r.input.Body, orDefault(r.input.ContentType, "application/octet-stream")
	case BodyForm:
		return r.form(key, media)
	default:
		return r.json(key, media, parameters)
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func isJSONType(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// json sends the bytes as they came.
func (r *rendering) json(key, media string, parameters map[string]string) ([]byte, string) {
	if media != "" && !isJSONType(media) || parameters["charset"] != "" && !strings.EqualFold(parameters["charset"], "utf-8") {
		r.fail("/content_type", "invalid", "This operation sends JSON in UTF-8.")
		return nil, ""
	}
	if _, err := decodeJSON(r.input.Body, len(r.input.Body)); err != nil {
		r.fail("/body", "invalid", "The body "+err.Error()+".")
		return nil, ""
	}
	body := r.input.Body
	if key != "" {
		tokens, _ := parsePointer(r.operation.Idempotency.Key.Name)
		var bad *FieldError
		if body, bad = insertMember(body, tokens, key); bad != nil {
			r.problems = append(r.problems, *bad)
		}
	}
	return body, orDefault(r.input.ContentType, "application/json")
}
