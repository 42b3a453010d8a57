package upstreams

import (
	"mime"
	"strings"
)

// body encodes the body and puts the key into it, if that is its place.
func (r *rendering) body(key string) ([]byte, string) {
	o := r.operation
	at := r.input.bodyField()
	switch {
	case o.Body == BodyNone && at != "":
		r.fail(at, "forbidden", "This operation has no body.")
		return nil, ""
	case o.Body == BodyNone:
		return nil, ""
	case at == "":
		r.fail("/body", "required", "This operation needs a body ("+o.Body+").")
		return nil, ""
	case at == "/parts" && o.Body != BodyMultipart:
		r.fail(at, "forbidden", "The body of this operation is "+o.Body+" and has no parts.")
		return nil, ""
	case at == "/body_ref" && o.Body != BodyRaw:
		r.fail(at, "forbidden", "A file can be the body of an operation with body: raw, or of a part where it is multipart. This one's is "+o.Body+".")
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
		if r.input.BodyFile != nil {
			r.file("/body_ref", *r.input.BodyFile, 0)
		}
		return r.input.Body, orDefault(r.input.ContentType, "application/octet-stream")
	case BodyMultipart:
		return r.multipart(key, media, parameters)
	case BodyForm:
		return r.form(key, media)
	default:
		return r.json(key, media, parameters)
	}
}

// bodyField names the member of a submission that gives the body, "" if none does.
func (i Input) bodyField() string {
	switch {
	case i.BodyFile != nil:
		return "/body_ref"
	case len(i.Parts) > 0:
		return "/parts"
	case i.HasBody:
		return "/body"
	default:
		return ""
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
