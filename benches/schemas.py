#!/usr/bin/env python3
"""A thousand JSON schemas in the style of those in use, each with texts that satisfy it, for `masks.rs`.

    python benches/schemas.py [COUNT] > schemas.jsonl

Written from what such documents have, not copied: configuration files, resources of web services, events, and
parameters of tools. Each of the bases comes in many variants: members left out, closed or open, required or not,
inlined or by reference, bounded or described.
"""

import json
import random
import sys

TEXTS = ["a", "main", "example", "North Harbour", "The quick brown fox.", "v1", "https://example.org/a?b=c", "x-1_2", "é", "line\nbreak", "42", "a \"quoted\" word", "A somewhat longer sentence, as descriptions have it, with a comma or two."]
FORMATS = {
    "date": ["2024-02-29", "1999-12-31"],
    "date-time": ["2024-02-29T12:00:00Z", "2023-01-01T08:30:06.25+02:00"],
    "time": ["12:00:00Z"],
    "email": ["joe@example.com", "a.b@x.org"],
    "uri": ["https://example.org/path?q=1", "urn:isbn:0451450523"],
    "uuid": ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"],
    "ipv4": ["192.168.0.1"],
    "hostname": ["www.example.com"],
}


def text(**more):
    return {"type": "string", **more}


def fmt(name):
    return text(format=name)


def pattern(of, *examples):
    return text(pattern=of, examples=list(examples))


def whole(low=None, high=None):
    return {"type": "integer", **({} if low is None else {"minimum": low}), **({} if high is None else {"maximum": high})}


def many(items, **more):
    return {"type": "array", "items": items, **more}


def table(of):
    return {"type": "object", "additionalProperties": of}


def one_of(*values):
    return {"type": "string", "enum": list(values)} if all(isinstance(v, str) for v in values) else {"enum": list(values)}


def ref(name):
    return {"$ref": f"#/$defs/{name}"}


def obj(closed=None, **members):
    """Members; those whose name begins with `o_` may be left out. `__` stands for `$`, `_at_` for `@`, `_dash_` for `-`."""
    properties, required = {}, []
    for key, schema in members.items():
        name = key.removeprefix("o_").replace("__", "$").replace("_at_", "@").replace("_dash_", "-")
        properties[name] = schema
        if not key.startswith("o_"):
            required.append(name)
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if closed is not None:
        schema["additionalProperties"] = not closed
    return schema


NUMBER, BOOL, NULL, ANY = {"type": "number"}, {"type": "boolean"}, {"type": "null"}, {}
STR, INT = text(), whole()
SEMVER = pattern(r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$", "1.2.3", "0.1.0-rc.1")
NAME63 = pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "web", "my-app-1")


def any_of(*schemas):
    return {"anyOf": list(schemas)}


def maybe(schema):
    return any_of(schema, NULL)


def package_json():
    person = any_of(STR, obj(name=STR, o_email=fmt("email"), o_url=fmt("uri")))
    versions = table(text())
    return obj(
        name=pattern(r"^(?:@[a-z0-9-~][a-z0-9-._~]*/)?[a-z0-9-~][a-z0-9-._~]*$", "left-pad", "@scope/pkg"), version=SEMVER, o_description=STR,
        o_keywords=many(STR), o_homepage=fmt("uri"), o_bugs=any_of(STR, obj(o_url=fmt("uri"), o_email=fmt("email"))), o_license=STR, o_author=person,
        o_contributors=many(person), o_files=many(STR), o_main=STR, o_bin=any_of(STR, versions), o_type=one_of("commonjs", "module"),
        o_exports=any_of(STR, table(any_of(STR, NULL, table(STR)))), o_repository=any_of(STR, obj(type=STR, url=STR, o_directory=STR)), o_scripts=versions,
        o_dependencies=versions, o_devDependencies=versions, o_peerDependencies=versions, o_optionalDependencies=versions, o_engines=versions,
        o_os=many(STR), o_cpu=many(STR), o_private=BOOL, o_workspaces=any_of(many(STR), obj(o_packages=many(STR), o_nohoist=many(STR))), o_publishConfig=table(ANY),
    )


def tsconfig():
    flags = ["strict", "noEmit", "declaration", "sourceMap", "esModuleInterop", "skipLibCheck", "isolatedModules", "noUnusedLocals", "noUnusedParameters", "noImplicitAny", "strictNullChecks", "resolveJsonModule", "allowJs", "checkJs", "incremental", "composite", "importHelpers", "experimentalDecorators", "emitDecoratorMetadata", "forceConsistentCasingInFileNames", "noFallthroughCasesInSwitch", "noImplicitReturns", "removeComments", "preserveConstEnums", "downlevelIteration"]
    options = obj(
        o_target=one_of("ES5", "ES2015", "ES2017", "ES2020", "ES2022", "ESNext"), o_module=one_of("CommonJS", "ES2020", "ESNext", "Node16", "NodeNext", "Preserve"),
        o_moduleResolution=one_of("Classic", "Node", "Node16", "NodeNext", "Bundler"), o_jsx=one_of("preserve", "react", "react-jsx", "react-jsxdev", "react-native"),
        o_lib=many(one_of("DOM", "DOM.Iterable", "ES2015", "ES2020", "ESNext", "WebWorker")), o_outDir=STR, o_rootDir=STR, o_baseUrl=STR, o_paths=table(many(STR)), o_types=many(STR), **{f"o_{flag}": BOOL for flag in flags},
    )
    return obj(o___schema=STR, o_extends=any_of(STR, many(STR)), o_compilerOptions=options, o_files=many(STR), o_include=many(STR), o_exclude=many(STR), o_references=many(obj(path=STR, o_prepend=BOOL)))


def workflow():
    env = table(any_of(STR, NUMBER, BOOL))
    step = obj(o_id=STR, o_name=STR, o_if=any_of(BOOL, NUMBER, STR), o_uses=STR, o_run=STR, o_with=env, o_env=env, o_shell=any_of(STR, one_of("bash", "pwsh", "sh")), **{"o_working_dash_directory": STR, "o_continue_dash_on_dash_error": any_of(BOOL, STR), "o_timeout_dash_minutes": any_of(NUMBER, STR)})
    branches = obj(o_branches=many(STR), o_tags=many(STR), o_paths=many(STR), o_types=many(one_of("opened", "closed", "synchronize", "labeled")))
    level = one_of("read", "write", "none")
    job = obj(
        o_name=STR, o_needs=any_of(STR, many(STR)), **{"runs_dash_on": any_of(STR, many(STR), obj(o_group=STR, o_labels=many(STR)))}, o_permissions=any_of(one_of("read-all", "write-all"), obj(o_contents=level, o_issues=level, o_packages=level)), o_env=env,
        o_strategy=obj(matrix=table(many(any_of(STR, NUMBER, BOOL))), **{"o_fail_dash_fast": BOOL, "o_max_dash_parallel": INT}), o_container=any_of(STR, obj(image=STR, o_env=env, o_ports=many(any_of(INT, STR)))), o_services=table(obj(image=STR)), o_steps=many(ref("step"), minItems=1), o_outputs=table(STR),
    )
    return {**obj(o_name=STR, on=any_of(STR, many(STR), obj(o_push=branches, o_pull_request=branches, o_schedule=many(obj(cron=STR)), o_workflow_dispatch=any_of(NULL, obj(o_inputs=table(ANY))))), o_env=env, jobs={"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": ref("job")}, "additionalProperties": False, "examples": []}), "$defs": {"step": step, "job": job}}


def compose():
    pairs = any_of(table(any_of(STR, NUMBER, BOOL, NULL)), many(STR))
    duration = pattern(r"^([0-9]+(h|m|s|ms))+$", "10s", "1m30s")
    service = obj(
        o_image=STR, o_build=any_of(STR, obj(o_context=STR, o_dockerfile=STR, o_args=pairs, o_target=STR)), o_command=any_of(NULL, STR, many(STR)), o_container_name=STR, o_depends_on=any_of(many(STR), table(obj(condition=one_of("service_started", "service_healthy", "service_completed_successfully")))),
        o_environment=pairs, o_env_file=any_of(STR, many(STR)), o_expose=many(any_of(STR, NUMBER)), o_healthcheck=obj(o_test=any_of(STR, many(STR)), o_interval=duration, o_timeout=duration, o_retries=NUMBER, o_disable=BOOL), o_labels=pairs, o_networks=any_of(many(STR), table(maybe(obj(o_aliases=many(STR))))),
        o_ports=many(any_of(NUMBER, STR, obj(o_target=INT, o_published=any_of(STR, INT), o_protocol=one_of("tcp", "udp")))), o_restart=one_of("no", "always", "on-failure", "unless-stopped"), o_user=STR, o_volumes=many(any_of(STR, obj(type=STR, o_source=STR, o_target=STR, o_read_only=BOOL))), o_working_dir=STR, o_privileged=BOOL,
    )
    named = {"type": "object", "patternProperties": {"^[a-zA-Z0-9._-]+$": ref("service")}, "additionalProperties": False}
    return {**obj(o_version=STR, o_name=STR, services=named, o_volumes=table(maybe(obj(o_driver=STR, o_external=BOOL))), o_networks=table(maybe(obj(o_driver=STR, o_internal=BOOL)))), "$defs": {"service": service}}


def kubernetes():
    labels = table(STR)
    meta = obj(name=NAME63, o_namespace=NAME63, o_labels=labels, o_annotations=labels, o_uid=STR, o_generation=INT)
    quantity = any_of(pattern(r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$", "100m", "1.5Gi", "2"), INT)
    value = obj(name=STR, o_value=STR, o_valueFrom=obj(o_secretKeyRef=obj(name=STR, key=STR), o_configMapKeyRef=obj(name=STR, key=STR)))
    probe = obj(o_httpGet=obj(o_path=STR, port=any_of(INT, STR)), o_exec=obj(o_command=many(STR)), o_initialDelaySeconds=INT, o_periodSeconds=INT, o_failureThreshold=INT)
    container = obj(name=NAME63, image=STR, o_command=many(STR), o_args=many(STR), o_env=many(value), o_ports=many(obj(containerPort=whole(1, 65535), o_name=STR, o_protocol=one_of("TCP", "UDP", "SCTP"))), o_resources=obj(o_limits=table(quantity), o_requests=table(quantity)), o_livenessProbe=ref("probe"), o_readinessProbe=ref("probe"), o_volumeMounts=many(obj(name=STR, mountPath=STR, o_readOnly=BOOL)), o_imagePullPolicy=one_of("Always", "Never", "IfNotPresent"))
    pod = obj(containers=many(ref("container"), minItems=1), o_initContainers=many(ref("container")), o_restartPolicy=one_of("Always", "OnFailure", "Never"), o_serviceAccountName=STR, o_nodeSelector=labels, o_volumes=many(obj(name=STR, o_emptyDir=obj(), o_configMap=obj(name=STR), o_secret=obj(secretName=STR))))
    template = obj(o_metadata=obj(o_labels=labels), spec=ref("pod"))
    kinds = {
        "Deployment": obj(o_replicas=whole(0), selector=obj(matchLabels=labels), template=template, o_strategy=obj(type=one_of("Recreate", "RollingUpdate"))),
        "Job": obj(template=template, o_backoffLimit=INT, o_completions=INT, o_parallelism=INT),
        "Pod": pod,
        "Service": obj(o_selector=labels, ports=many(obj(port=whole(1, 65535), o_targetPort=any_of(INT, STR), o_name=STR)), o_type=one_of("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")),
    }
    kind = RANDOM.choice(sorted(kinds))
    return {**obj(apiVersion={"const": "apps/v1" if kind == "Deployment" else "v1"}, kind={"const": kind}, metadata=meta, spec=kinds[kind]), "$defs": {"container": container, "pod": pod, "probe": probe}}


def geojson():
    place = many(NUMBER, minItems=2, maxItems=4)
    shape = lambda kind, coordinates: obj(type={"const": kind}, coordinates=coordinates, o_bbox=many(NUMBER, minItems=4, maxItems=6))
    shapes = [shape("Point", place), shape("LineString", many(place, minItems=2)), shape("Polygon", many(many(place, minItems=4))), shape("MultiPoint", many(place)), shape("MultiLineString", many(many(place)))]
    feature = obj(type={"const": "Feature"}, o_id=any_of(STR, NUMBER), properties=any_of(NULL, {"type": "object"}), geometry=maybe({"oneOf": shapes}))
    return RANDOM.choice([feature, obj(type={"const": "FeatureCollection"}, features=many(feature)), {"oneOf": shapes}])


def fhir():
    coding = obj(o_system=fmt("uri"), o_version=STR, o_code=STR, o_display=STR, o_userSelected=BOOL)
    defs = {
        "Coding": coding, "CodeableConcept": obj(o_coding=many(ref("Coding")), o_text=STR), "Period": obj(o_start=fmt("date-time"), o_end=fmt("date-time")),
        "Reference": obj(o_reference=STR, o_type=STR, o_identifier=ref("Identifier"), o_display=STR), "Identifier": obj(o_use=one_of("usual", "official", "temp", "secondary", "old"), o_type=ref("CodeableConcept"), o_system=fmt("uri"), o_value=STR, o_period=ref("Period"), o_assigner=ref("Reference")),
        "Quantity": obj(o_value=NUMBER, o_comparator=one_of("<", "<=", ">=", ">"), o_unit=STR, o_system=fmt("uri"), o_code=STR), "HumanName": obj(o_use=one_of("usual", "official", "nickname", "maiden"), o_text=STR, o_family=STR, o_given=many(STR), o_prefix=many(STR), o_period=ref("Period")),
        "ContactPoint": obj(o_system=one_of("phone", "fax", "email", "url", "sms"), o_value=STR, o_use=one_of("home", "work", "mobile"), o_rank=whole(1)), "Address": obj(o_use=one_of("home", "work", "temp", "billing"), o_text=STR, o_line=many(STR), o_city=STR, o_state=STR, o_postalCode=STR, o_country=STR, o_period=ref("Period")),
        "Extension": obj(url=STR, o_valueString=STR, o_valueCode=STR, o_valueBoolean=BOOL, o_valueInteger=INT, o_valueDecimal=NUMBER, o_valueCoding=ref("Coding"), o_extension=many(ref("Extension"))),
    }
    common = dict(o_id=pattern(r"^[A-Za-z0-9\-\.]{1,64}$", "f001", "a.b-c"), o_meta=obj(o_versionId=STR, o_lastUpdated=fmt("date-time"), o_profile=many(fmt("uri"))), o_language=STR, o_text=obj(status=one_of("generated", "extensions", "additional", "empty"), div=STR), o_extension=many(ref("Extension")), o_identifier=many(ref("Identifier")))
    kinds = [
        obj(resourceType={"const": "Patient"}, **common, o_active=BOOL, o_name=many(ref("HumanName")), o_telecom=many(ref("ContactPoint")), o_gender=one_of("male", "female", "other", "unknown"), o_birthDate=fmt("date"), o_deceasedBoolean=BOOL, o_address=many(ref("Address")), o_maritalStatus=ref("CodeableConcept"), o_generalPractitioner=many(ref("Reference"))),
        obj(resourceType={"const": "Observation"}, **common, status=one_of("registered", "preliminary", "final", "amended", "cancelled"), o_category=many(ref("CodeableConcept")), code=ref("CodeableConcept"), o_subject=ref("Reference"), o_effectiveDateTime=fmt("date-time"), o_valueQuantity=ref("Quantity"), o_valueString=STR, o_interpretation=many(ref("CodeableConcept")), o_component=many(obj(code=ref("CodeableConcept"), o_valueQuantity=ref("Quantity")))),
        obj(resourceType={"const": "MedicationRequest"}, **common, status=one_of("active", "on-hold", "cancelled", "completed", "draft"), intent=one_of("proposal", "plan", "order"), medicationCodeableConcept=ref("CodeableConcept"), subject=ref("Reference"), o_authoredOn=fmt("date-time"), o_dosageInstruction=many(obj(o_sequence=INT, o_text=STR, o_asNeededBoolean=BOOL, o_route=ref("CodeableConcept")))),
    ]
    return {**RANDOM.choice(kinds), "$defs": defs}


def openapi_resource():
    stamps = dict(o_createdAt=fmt("date-time"), o_updatedAt=fmt("date-time"))
    money = obj(amount=whole(0), currency=pattern("^[A-Z]{3}$", "EUR", "USD"))
    address = obj(o_line1=text(maxLength=120), o_line2=text(maxLength=120), o_city=STR, o_postal_code=text(maxLength=12), country=pattern("^[A-Z]{2}$", "NO", "IT"))
    things = {
        "pet": obj(id=whole(), name=text(minLength=1, maxLength=80), o_category=obj(o_id=whole(), o_name=STR), photoUrls=many(fmt("uri")), o_tags=many(obj(o_id=whole(), o_name=STR)), o_status=one_of("available", "pending", "sold")),
        "order": obj(id=fmt("uuid"), customer_id=fmt("uuid"), items=many(obj(sku=pattern("^[A-Z0-9]{4,12}$", "AB12", "SKU0001"), quantity=whole(1, 999), price=money), minItems=1), o_shipping=address, o_billing=address, total=money, status=one_of("new", "paid", "shipped", "delivered", "cancelled"), o_notes=text(maxLength=500), **stamps),
        "customer": obj(id=fmt("uuid"), email=fmt("email"), o_name=obj(first=STR, last=STR), o_phone=pattern(r"^\+?[0-9 ()-]{6,20}$", "+47 22 22 22 22"), o_addresses=many(address), o_metadata=table(STR), o_marketing=BOOL, **stamps),
        "invoice": obj(number=pattern(r"^INV-[0-9]{6}$", "INV-000123"), issued=fmt("date"), o_due=fmt("date"), lines=many(obj(description=STR, quantity=NUMBER, unit_price=money, o_tax_rate={"type": "number", "minimum": 0, "maximum": 1})), currency=STR, o_paid=BOOL),
        "error": obj(type=fmt("uri"), title=STR, status=whole(100, 599), o_detail=STR, o_instance=STR, o_errors=many(obj(pointer=STR, detail=STR))),
        "charge": obj(id=pattern("^ch_[0-9a-zA-Z]{8,24}$", "ch_1A2b3C4d"), object={"const": "charge"}, amount=whole(0), currency=STR, captured=BOOL, o_customer=maybe(STR), o_description=maybe(STR), o_payment_method_details=obj(type=STR, o_card=obj(brand=STR, last4=pattern("^[0-9]{4}$", "4242"), exp_month=whole(1, 12), exp_year=whole(2000, 2100))), metadata=table(STR)),
    }
    made = things[RANDOM.choice(sorted(things))]
    if RANDOM.random() < 0.3:
        return obj(data=many(made), page=obj(o_next=maybe(STR), total=whole(0), limit=whole(1, 100)))
    return made


def event():
    cloud = obj(specversion={"const": "1.0"}, id=STR, source=STR, type=STR, o_subject=STR, o_time=fmt("date-time"), o_datacontenttype=STR, o_data=ANY)
    person = obj(**{"_at_type": {"const": "Person"}}, name=STR, o_url=fmt("uri"))
    place = obj(**{"_at_type": {"const": "Place"}}, name=STR, o_address=obj(**{"_at_type": {"const": "PostalAddress"}}, o_streetAddress=STR, o_addressLocality=STR, o_postalCode=STR, o_addressCountry=STR))
    linked = obj(**{"_at_context": {"const": "https://schema.org"}, "_at_type": one_of("Event", "MusicEvent", "BusinessEvent", "Festival")}, name=STR, startDate=fmt("date-time"), o_endDate=fmt("date-time"), o_location=any_of(STR, place), o_performer=any_of(person, many(person)), o_offers=many(obj(o_price=any_of(NUMBER, STR), o_priceCurrency=STR, o_availability=fmt("uri"))), o_description=STR)
    span = obj(traceId=pattern("^[0-9a-f]{32}$", "0af7651916cd43dd8448eb211c80319c"), spanId=pattern("^[0-9a-f]{16}$", "b7ad6b7169203331"), o_parentSpanId=STR, name=STR, kind=whole(0, 5), startTimeUnixNano=STR, endTimeUnixNano=STR, o_attributes=many(obj(key=STR, value=any_of(obj(True, stringValue=STR), obj(True, intValue=INT), obj(True, boolValue=BOOL)))), o_status=obj(o_code=whole(0, 2), o_message=STR))
    call = obj(jsonrpc={"const": "2.0"}, method=STR, o_params=any_of(many(ANY), {"type": "object"}), o_id=any_of(STR, INT, NULL))
    return RANDOM.choice([cloud, linked, span, call])


def tool():
    tools = [
        obj(True, location=STR, o_unit=one_of("celsius", "fahrenheit"), o_days=whole(1, 14)),
        obj(True, query=text(minLength=1), o_top_k=whole(1, 50), o_filters=obj(o_author=STR, o_after=fmt("date"), o_before=fmt("date"), o_language=one_of("en", "de", "fr", "es", "no"))),
        obj(True, title=STR, start=fmt("date-time"), end=fmt("date-time"), o_attendees=many(fmt("email")), o_reminders=many(whole(0, 10080)), o_recurrence=one_of("none", "daily", "weekly", "monthly")),
        obj(True, sql=STR, o_parameters=many(any_of(STR, NUMBER, BOOL, NULL)), o_limit=whole(1, 10000)),
        obj(True, to=many(fmt("email"), minItems=1), o_cc=many(fmt("email")), subject=text(maxLength=200), body=STR, o_priority=one_of("low", "normal", "high")),
        obj(True, origin=pattern("^[A-Z]{3}$", "OSL"), destination=pattern("^[A-Z]{3}$", "FCO"), departure=fmt("date"), o_return=fmt("date"), passengers=obj(True, adults=whole(1, 9), o_children=whole(0, 8)), o_cabin=one_of("economy", "premium", "business", "first")),
        obj(True, path=STR, edits=many(obj(True, old=STR, new=STR, o_count=whole(1)), minItems=1), o_dry_run=BOOL),
        {"oneOf": [obj(True, action={"const": "click"}, x=whole(0), y=whole(0)), obj(True, action={"const": "type"}, text=STR), obj(True, action={"const": "scroll"}, direction=one_of("up", "down"), o_amount=whole(1, 100)), obj(True, action={"const": "done"}, result=STR)]},
        obj(True, reasoning=STR, answer=STR, confidence={"type": "number", "minimum": 0, "maximum": 1}, o_sources=many(obj(True, url=fmt("uri"), o_quote=STR))),
        obj(True, entities=many(obj(True, text=STR, label=one_of("PERSON", "ORG", "LOC", "DATE", "MISC"), start=whole(0), end=whole(0))), relations=many(obj(True, head=whole(0), tail=whole(0), type=one_of("works_for", "lives_in", "part_of")))),
        obj(True, steps=many(obj(True, explanation=STR, output=STR)), final_answer=STR),
        obj(True, sentiment=one_of("positive", "neutral", "negative"), scores=obj(True, positive=NUMBER, neutral=NUMBER, negative=NUMBER), o_aspects=many(obj(True, name=STR, polarity=one_of("positive", "neutral", "negative")))),
    ]
    made = RANDOM.choice(tools)
    if RANDOM.random() < 0.3:
        return obj(True, name={"const": RANDOM.choice(["search", "get_weather", "create_event", "run_query", "send_email"])}, arguments=made)
    return made


def settings():
    words = ["editor", "terminal", "search", "files", "git", "debug", "window", "workbench", "explorer", "extensions", "python", "rust", "typescript", "markdown"]
    parts = ["fontSize", "fontFamily", "tabSize", "wordWrap", "lineNumbers", "autoSave", "exclude", "enabled", "path", "args", "theme", "renderWhitespace", "cursorStyle", "formatOnSave", "maxResults", "timeout", "logLevel", "suggest", "hover", "trace"]
    values = [BOOL, STR, whole(0, 1000), many(STR), one_of("off", "on", "auto"), table(BOOL), NUMBER, maybe(STR)]
    names = [f"{word}.{part}" for word in words for part in parts]
    return {"type": "object", "properties": {name: RANDOM.choice(values) for name in RANDOM.sample(names, RANDOM.choice([20, 60, 120]))}}


def tree():
    block = any_of(obj(type={"const": "divider"}), obj(type={"const": "section"}, text=obj(type=one_of("plain_text", "mrkdwn"), text=text(maxLength=3000)), o_fields=many(STR, maxItems=10)), obj(type={"const": "image"}, image_url=fmt("uri"), alt_text=STR), obj(type={"const": "actions"}, elements=many(obj(type={"const": "button"}, text=STR, action_id=text(maxLength=255), o_style=one_of("primary", "danger")))))
    node = {"$ref": "#/$defs/node", "$defs": {"node": obj(value=NUMBER, children=many(ref("node")))}}
    syntax = {**obj(type={"const": "Program"}, body=many(ref("expr"))), "$defs": {"expr": any_of(obj(True, type={"const": "Literal"}, value=any_of(STR, NUMBER, BOOL, NULL)), obj(True, type={"const": "Identifier"}, name=pattern("^[A-Za-z_$][A-Za-z0-9_$]*$", "x", "$y_1")), obj(True, type={"const": "BinaryExpression"}, operator=one_of("+", "-", "*", "/", "==", "<"), left=ref("expr"), right=ref("expr")), obj(True, type={"const": "CallExpression"}, callee=ref("expr"), arguments=many(ref("expr"))))}}
    query = {"$ref": "#/$defs/q", "$defs": {"q": any_of(obj(True, all=many(ref("q"))), obj(True, field=STR, op=one_of("eq", "ne", "gt", "lt", "in"), value=any_of(STR, NUMBER, many(STR))))}}
    return RANDOM.choice([obj(blocks=many(block, maxItems=50), o_channel=STR), node, syntax, query])


def catalogue():
    component = obj(type=one_of("application", "framework", "library", "container", "operating-system", "device", "file"), name=STR, o_version=STR, o_purl=STR, o_licenses=many(any_of(obj(True, license=any_of(obj(True, id=STR), obj(True, name=STR))), obj(True, expression=STR))), o_hashes=many(obj(alg=one_of("MD5", "SHA-1", "SHA-256", "SHA-512"), content=pattern("^[a-fA-F0-9]{32,128}$", "0" * 64))))
    resume = obj(basics=obj(name=STR, o_label=STR, o_email=fmt("email"), o_phone=STR, o_url=fmt("uri"), o_summary=STR, o_location=obj(o_city=STR, o_countryCode=STR)), o_work=many(obj(name=STR, o_position=STR, o_startDate=pattern("^([1-2][0-9]{3}-[0-1][0-9]-[0-3][0-9]|[1-2][0-9]{3}-[0-1][0-9]|[1-2][0-9]{3})$", "2020", "2020-01"), o_summary=STR, o_highlights=many(STR))), o_education=many(obj(institution=STR, o_area=STR, o_studyType=STR)), o_skills=many(obj(name=STR, o_level=STR, o_keywords=many(STR))), o_languages=many(obj(language=STR, o_fluency=STR)))
    feed = obj(version=fmt("uri"), title=STR, o_home_page_url=fmt("uri"), items=many(obj(id=STR, o_url=fmt("uri"), o_title=STR, o_content_html=STR, o_date_published=fmt("date-time"), o_tags=many(STR))))
    sbom = obj(bomFormat={"const": "CycloneDX"}, specVersion=STR, o_serialNumber=pattern(r"^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "urn:uuid:3e671687-395b-41f5-a30f-a58921a69b79"), version=whole(1), o_components=many(component))
    chart = obj(o___schema=fmt("uri"), data=any_of(obj(True, url=STR), obj(True, values=many({"type": "object"}))), mark=any_of(one_of("bar", "line", "point", "area", "rect"), obj(type=one_of("bar", "line", "point"), o_color=STR, o_tooltip=BOOL)), encoding=obj(**{f"o_{axis}": obj(o_field=STR, o_type=one_of("quantitative", "temporal", "ordinal", "nominal"), o_aggregate=one_of("sum", "mean", "count", "min", "max"), o_title=maybe(STR)) for axis in ["x", "y", "color", "size", "row", "column"]}), o_width=any_of(NUMBER, {"const": "container"}), o_height=NUMBER)
    panel = obj(id=INT, type=one_of("graph", "stat", "table", "timeseries", "text"), title=STR, gridPos=obj(x=whole(0, 23), y=whole(0), w=whole(1, 24), h=whole(1)), o_targets=many(obj(refId=STR, expr=STR, o_legendFormat=STR)), o_options=table(ANY))
    currency = one_of(*(a + b + c for a in "ABCE" for b in "AEIOU" for c in "DKRS"))
    rates = obj(base=currency, date=fmt("date"), rates={"type": "object", "propertyNames": {"pattern": "^[A-Z]{3}$"}, "additionalProperties": NUMBER})
    return RANDOM.choice([sbom, resume, feed, chart, obj(title=STR, panels=many(panel), o_time=obj(**{"from": STR}, to=STR), o_refresh=any_of(STR, BOOL)), rates])


BASES = [package_json, tsconfig, workflow, compose, kubernetes, geojson, fhir, openapi_resource, openapi_resource, event, tool, tool, tool, settings, tree, catalogue]


def varied(schema):
    """Another schema of the same kind."""
    if isinstance(schema, list):
        return [varied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: {k: varied(v) for k, v in value.items()} if key in ("properties", "patternProperties", "$defs") else value if key in ("enum", "const", "examples", "required") else varied(value) for key, value in schema.items()}
    if made.get("type") == "object" and "properties" in made:
        required = set(made.get("required", []))
        keep = RANDOM.choice([1, 1, 0.8, 0.5])
        made["properties"] = {k: v for k, v in made["properties"].items() if k in required or RANDOM.random() < keep}
        if "additionalProperties" not in made and RANDOM.random() < 0.4:
            made["additionalProperties"] = False
        # Members that refer to others could then have no end.
        if RANDOM.random() < 0.1 and "$ref" not in json.dumps(made["properties"]):
            made["required"] = list(made["properties"])
        if RANDOM.random() < 0.3:
            made["description"] = RANDOM.choice(TEXTS)
    if made.get("type") == "string" and len(made) == 1 and RANDOM.random() < 0.08:
        made["maxLength"] = RANDOM.choice([32, 64, 255, 2000])
    return made


def instance(schema, root, depth=0):
    """A value that satisfies the schema, members in its order."""
    if "$ref" in schema:
        return instance(root["$defs"][schema["$ref"].rsplit("/", 1)[-1]], root, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return RANDOM.choice(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            ways = schema[key]
            return instance(ways[0] if depth > 7 else RANDOM.choice(ways), root, depth + 1)
    kind = schema.get("type")
    if kind == "object":
        return members(schema, root, depth)
    if kind == "array":
        low, high = schema.get("minItems", 0), schema.get("maxItems", 3)
        count = low if depth > 7 else RANDOM.randint(low, max(low, min(high, low + 2)))
        return [instance(schema["items"], root, depth + 1) for _ in range(count)]
    if kind == "string":
        return string(schema)
    if kind == "integer":
        return RANDOM.randint(schema.get("minimum", -5), min(schema.get("maximum", 10**6), schema.get("minimum", 0) + 10**4))
    if kind == "number":
        return round(RANDOM.uniform(schema.get("minimum", -100), schema.get("maximum", 1000)), RANDOM.choice([1, 2, 3])) + 0.0
    if kind == "boolean":
        return RANDOM.random() < 0.5
    return None if kind == "null" else RANDOM.choice([None, 1, "text", [1, 2], {"key": "value"}])


def members(schema, root, depth):
    required, value = set(schema.get("required", [])), {}
    for name, inner in schema.get("properties", {}).items():
        if name in required or RANDOM.random() < (0.6 if depth < 3 else 0.2 if depth < 7 else 0):
            value[name] = instance(inner, root, depth + 1)
    more = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
    if isinstance(more, dict) and not schema.get("properties"):
        names = RANDOM.sample(["EUR", "USD", "NOK"] if "propertyNames" in schema else ["build", "test", "web", "my-key", "db_1"], RANDOM.randint(1, 2))
        value.update({name: instance(more, root, depth + 1) for name in names})
    return value


def string(schema):
    if "examples" in schema:
        return RANDOM.choice(schema["examples"])
    if "format" in schema:
        return RANDOM.choice(FORMATS[schema["format"]])
    fitting = [t for t in TEXTS if schema.get("minLength", 0) <= len(t) <= schema.get("maxLength", 10**6)]
    return RANDOM.choice(fitting)


def main():
    global RANDOM
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for number in range(count):
        RANDOM = random.Random(number)
        base = BASES[number % len(BASES)]
        schema = varied(base())
        values = [instance(schema, schema) for _ in range(2)]
        texts = [json.dumps(value, ensure_ascii=False, indent=RANDOM.choice([None, None, 2])) for value in values]
        print(json.dumps({"name": f"{base.__name__} {number}", "schema": schema, "texts": texts}, ensure_ascii=False))


if __name__ == "__main__":
    main()
