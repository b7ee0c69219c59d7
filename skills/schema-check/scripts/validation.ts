// Validates values against a JSON Schema.

import { FORMATS } from "./formats.ts";
import { child, type Json } from "./json_text.ts";

type JsonObject = { [key: string]: Json };
type Schema = boolean | JsonObject;

/** A rule of the schema that a value breaks. Both places are JSON pointers. */
export interface Violation {
  instance: string;
  rule: string;
  message: string;
}

/** A schema that cannot be used. */
export class SchemaError extends Error {}

/** Loads the schema of another file, by its path relative to the schema that names it. */
export type Loader = (file: string, from: string) => { value: Json; file: string };

/** What a schema says about a value: its violations, and what of it the schema has looked at. */
interface Result {
  violations: Violation[];
  properties: Set<string>;
  items: Set<number>;
}

/** A schema, with the document that it is a part of. */
interface Located {
  schema: Schema;
  pointer: string;
  file: string;
}

/** More steps from reference to reference than any real schema needs for one value. */
const MAX_STEPS = 200;
const REFERENCES = ["$ref", "$dynamicRef", "$recursiveRef"];
const TYPES = ["null", "boolean", "object", "array", "number", "string", "integer"];

/** The keywords that hold schemas: one, a list, or a map from names. */
const APPLICATORS: { [keyword: string]: "one" | "list" | "map" | "items" | "mixed" } = {
  additionalItems: "one",
  additionalProperties: "one",
  allOf: "list",
  anyOf: "list",
  contains: "one",
  dependencies: "mixed",
  dependentSchemas: "map",
  else: "one",
  if: "one",
  items: "items",
  not: "one",
  oneOf: "list",
  patternProperties: "map",
  prefixItems: "list",
  properties: "map",
  propertyNames: "one",
  then: "one",
  unevaluatedItems: "one",
  unevaluatedProperties: "one",
  $defs: "map",
  definitions: "map",
};

export class Validator {
  documents = new Map<string, Json>();
  ids = new Map<string, Located>();
  /** The references of all documents, and what they mean. */
  references: { reference: string; from: Located }[] = [];
  resolved = new Map<string, Located>();
  load: Loader;
  root: Located;
  formats: boolean;

  constructor(value: Json, file: string, load: Loader, formats: boolean) {
    this.load = load;
    this.formats = formats;
    this.root = this.add(value, file);
    // Also those that no value needs. A document that is loaded on the way adds its own.
    for (const { reference, from } of this.references) {
      this.resolve(reference, from);
    }
  }

  /** Returns the violations of a value. */
  validate(value: Json): Violation[] {
    return this.apply(this.root, value, "", 0).violations;
  }

  /** Adds a document with schemas. */
  add(value: Json, file: string): Located {
    this.documents.set(file, value);
    const root = { schema: schemaOf(value, "", file), pointer: "", file };
    this.index(root, "");
    return root;
  }

  /** Checks the keywords of a schema and those below, and records its names. */
  index(located: Located, base: string): void {
    const { schema, pointer, file } = located;
    if (typeof schema === "boolean") {
      return;
    }
    const at = `${file}#${pointer}`;
    let own = base;
    const anchors = [schema.$anchor, schema.$dynamicAnchor];
    if (typeof schema.$id === "string" && schema.$id.startsWith("#")) {
      // The anchors of draft 7.
      anchors.push(schema.$id.slice(1));
    } else if (typeof schema.$id === "string") {
      own = new Id(schema.$id).from(base);
      this.ids.set(own, located);
    }
    for (const anchor of anchors) {
      if (typeof anchor !== "string" || anchor === "") {
        continue;
      }
      this.ids.set(`${file}#${anchor}`, located);
      // Without an `$id`, only the file tells apart the same anchor in two documents.
      if (own !== "") {
        this.ids.set(`${own}#${anchor}`, located);
      }
    }
    for (const keyword of REFERENCES) {
      const reference = schema[keyword];
      if (typeof reference === "string") {
        this.references.push({ reference, from: located });
      }
    }
    checkKeywords(schema, at);
    for (const [keyword, kind] of Object.entries(APPLICATORS)) {
      const value = schema[keyword];
      if (value === undefined) {
        continue;
      }
      const below = child(pointer, keyword);
      const isList = kind === "list" || (kind === "items" && Array.isArray(value));
      if (isList && !Array.isArray(value)) {
        throw new SchemaError(`${at}: ${keyword} must be a list of schemas`);
      }
      if (isList) {
        (value as Json[]).forEach((one, index) => this.indexChild(one, child(below, index), file, own));
      } else if (kind === "map" || kind === "mixed") {
        if (!isObject(value)) {
          throw new SchemaError(`${at}: ${keyword} must be an object`);
        }
        for (const [name, one] of Object.entries(value)) {
          if (kind === "map" || !Array.isArray(one)) {
            this.indexChild(one, child(below, name), file, own);
          }
        }
      } else {
        this.indexChild(value, below, file, own);
      }
    }
  }

  indexChild(value: Json, pointer: string, file: string, base: string): void {
    this.index({ schema: schemaOf(value, pointer, file), pointer, file }, base);
  }

  /** Returns the schema that a reference means, and loads its document once. */
  resolve(reference: string, from: Located): Located {
    const key = `${from.file}\n${reference}`;
    const found = this.resolved.get(key) ?? this.find(reference, from);
    this.resolved.set(key, found);
    return found;
  }

  find(reference: string, from: Located): Located {
    const [name, fragment = ""] = split(reference);
    for (const id of [reference, name, ...[...this.ids.keys()].filter((id) => id.endsWith(`/${name}`))]) {
      const found = name === "" && id === "" ? undefined : this.ids.get(id);
      if (found !== undefined) {
        return id === reference || fragment === "" ? found : this.within(found, fragment, reference);
      }
    }
    if (name === "") {
      const named = this.ids.get(`${from.file}#${fragment}`);
      const value = this.documents.get(from.file) as Json;
      const document = { schema: schemaOf(value, "", from.file), pointer: "", file: from.file };
      return named ?? this.within(document, fragment, reference);
    }
    if (/^[a-z][a-z0-9+.-]*:/i.test(name)) {
      throw new SchemaError(`${from.file}: ${reference} is not loaded from the network`);
    }
    const { value, file } = this.load(decodeURIComponent(name), from.file);
    const document = this.documents.has(file)
      ? { schema: schemaOf(value, "", file), pointer: "", file }
      : this.add(value, file);
    return this.ids.get(`${file}#${fragment}`) ?? this.within(document, fragment, reference);
  }

  /** Returns the schema at a JSON pointer in another one. */
  within(located: Located, fragment: string, reference: string): Located {
    let value = located.schema as Json;
    let pointer = located.pointer;
    if (fragment !== "" && !fragment.startsWith("/")) {
      throw new SchemaError(`${located.file}: ${reference} names no anchor`);
    }
    for (const part of decodeURIComponent(fragment).split("/").slice(1)) {
      const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
      const next: Json | undefined = Array.isArray(value)
        ? value[Number(key)]
        : isObject(value) && Object.hasOwn(value, key)
          ? value[key]
          : undefined;
      if (next === undefined) {
        throw new SchemaError(`${located.file}: ${reference} does not exist`);
      }
      value = next;
      pointer = child(pointer, key);
    }
    return { schema: schemaOf(value, pointer, located.file), pointer, file: located.file };
  }

  apply(located: Located, value: Json, at: string, steps: number): Result {
    const { schema, pointer } = located;
    const result: Result = { violations: [], properties: new Set(), items: new Set() };
    if (steps > MAX_STEPS) {
      throw new SchemaError(`${located.file}#${pointer}: the references form a loop`);
    }
    if (typeof schema === "boolean") {
      if (!schema) {
        result.violations.push({ instance: at, rule: pointer, message: "is not allowed" });
      }
      return result;
    }
    const fail = (keyword: string, message: string): void => {
      result.violations.push({ instance: at, rule: child(pointer, keyword), message });
    };
    /** Applies a schema to the same value. */
    const also = (below: Located): Result => this.apply(below, value, at, steps + 1);
    /** Takes over the violations, and what the schema has looked at. */
    const take = (found: Result): void => {
      result.violations.push(...found.violations);
      merge(result, found);
    };
    for (const keyword of REFERENCES) {
      const reference = schema[keyword];
      if (typeof reference === "string") {
        take(also(this.resolve(reference, located)));
      }
    }
    const sub = (...keys: (string | number)[]): Located => {
      let below = schema as Json;
      let place = pointer;
      for (const key of keys) {
        below = (below as JsonObject)[key as string];
        place = child(place, key);
      }
      return { schema: below as Schema, pointer: place, file: located.file };
    };
    checkValue(schema, value, fail, this.formats);
    this.combine(schema, sub, also, take, fail, result);
    if (Array.isArray(value)) {
      this.applyToItems(schema, sub, value, at, result, fail);
    } else if (isObject(value)) {
      this.applyToProperties(schema, sub, value, at, result, fail, also, take);
    }
    return result;
  }

  /** Applies `allOf`, `anyOf`, `oneOf`, `not` and `if`. */
  combine(
    schema: JsonObject,
    sub: (...keys: (string | number)[]) => Located,
    also: (below: Located) => Result,
    take: (found: Result) => void,
    fail: (keyword: string, message: string) => void,
    result: Result,
  ): void {
    for (let index = 0; index < list(schema.allOf).length; index += 1) {
      take(also(sub("allOf", index)));
    }
    for (const keyword of ["anyOf", "oneOf"]) {
      const results = list(schema[keyword]).map((_, index) => also(sub(keyword, index)));
      const valid = results.filter((found) => found.violations.length === 0);
      valid.forEach((found) => merge(result, found));
      if (results.length > 0 && valid.length === 0) {
        const best = results.reduce((a, b) => (distance(b) < distance(a) ? b : a));
        fail(keyword, `fits none of ${results.length} alternatives; the nearest:`);
        result.violations.push(...best.violations);
      } else if (keyword === "oneOf" && valid.length > 1) {
        fail(keyword, `fits ${valid.length} alternatives, but must fit exactly one`);
      }
    }
    if (schema.not !== undefined && also(sub("not")).violations.length === 0) {
      fail("not", "fits a schema that it must not fit");
    }
    if (schema.if !== undefined) {
      const condition = also(sub("if"));
      const branch = condition.violations.length === 0 ? "then" : "else";
      if (branch === "then") {
        merge(result, condition);
      }
      if (schema[branch] !== undefined) {
        take(also(sub(branch)));
      }
    }
  }

  applyToItems(
    schema: JsonObject,
    sub: (...keys: (string | number)[]) => Located,
    value: Json[],
    at: string,
    result: Result,
    fail: (keyword: string, message: string) => void,
  ): void {
    const one = (below: Located, index: number): void => {
      const found = this.apply(below, value[index], child(at, index), 0);
      result.violations.push(...found.violations);
      result.items.add(index);
    };
    const isTuple = Array.isArray(schema.items);
    const first = isTuple ? "items" : "prefixItems";
    const prefix = list(schema[first]).length;
    for (let index = 0; index < Math.min(prefix, value.length); index += 1) {
      one(sub(first, index), index);
    }
    const rest = isTuple ? "additionalItems" : "items";
    if (schema[rest] !== undefined) {
      for (let index = prefix; index < value.length; index += 1) {
        one(sub(rest), index);
      }
    }
    if (schema.contains !== undefined) {
      const found = value.flatMap((item, index) =>
        this.apply(sub("contains"), item, child(at, index), 0).violations.length === 0 ? [index] : [],
      );
      found.forEach((index) => result.items.add(index));
      const least = (schema.minContains as number | undefined) ?? 1;
      const most = (schema.maxContains as number | undefined) ?? Infinity;
      if (found.length < least || found.length > most) {
        fail("contains", `has ${found.length} matching items, but must have ${range(least, most)}`);
      }
    }
    if (schema.unevaluatedItems !== undefined) {
      for (let index = 0; index < value.length; index += 1) {
        if (!result.items.has(index)) {
          one(sub("unevaluatedItems"), index);
        }
      }
    }
  }

  applyToProperties(
    schema: JsonObject,
    sub: (...keys: (string | number)[]) => Located,
    value: JsonObject,
    at: string,
    result: Result,
    fail: (keyword: string, message: string) => void,
    also: (below: Located) => Result,
    take: (found: Result) => void,
  ): void {
    const one = (below: Located, name: string): void => {
      const found = this.apply(below, value[name], child(at, name), 0);
      result.violations.push(...found.violations);
      result.properties.add(name);
    };
    const names = Object.keys(value);
    const own = object(schema.properties);
    const patterns = Object.keys(object(schema.patternProperties)).map((text) => [text, new RegExp(text, "u")] as const);
    for (const name of names) {
      const matching = patterns.filter(([, pattern]) => pattern.test(name));
      if (Object.hasOwn(own, name)) {
        one(sub("properties", name), name);
      }
      matching.forEach(([text]) => one(sub("patternProperties", text), name));
      if (!Object.hasOwn(own, name) && matching.length === 0 && schema.additionalProperties !== undefined) {
        one(sub("additionalProperties"), name);
      }
      if (schema.propertyNames !== undefined) {
        const found = this.apply(sub("propertyNames"), name, child(at, name), 0);
        result.violations.push(...found.violations.map((one) => ({ ...one, message: `the name ${one.message}` })));
      }
    }
    for (const keyword of ["dependentRequired", "dependencies"]) {
      for (const [name, needed] of Object.entries(object(schema[keyword]))) {
        const missing = Array.isArray(needed) ? needed.filter((other) => !Object.hasOwn(value, String(other))) : [];
        if (Object.hasOwn(value, name) && missing.length > 0) {
          fail(keyword, `has \`${name}\` and so must have \`${missing.join("`, `")}\``);
        }
      }
    }
    for (const keyword of ["dependentSchemas", "dependencies"]) {
      for (const [name, needed] of Object.entries(object(schema[keyword]))) {
        if (Object.hasOwn(value, name) && !Array.isArray(needed)) {
          take(also(sub(keyword, name)));
        }
      }
    }
    if (schema.unevaluatedProperties !== undefined) {
      for (const name of names.filter((name) => !result.properties.has(name))) {
        one(sub("unevaluatedProperties"), name);
      }
    }
  }
}

/** Checks the keywords that look at the value itself. */
function checkValue(
  schema: JsonObject,
  value: Json,
  fail: (keyword: string, message: string) => void,
  formats: boolean,
): void {
  const types = typeof schema.type === "string" ? [schema.type] : list(schema.type);
  if (types.length > 0 && !types.some((type) => isOfType(value, type as string))) {
    fail("type", `must be ${types.join(" or ")}, but is ${shown(value)}`);
  }
  if (Array.isArray(schema.enum) && !schema.enum.some((one) => isEqual(one, value))) {
    fail("enum", `must be one of ${schema.enum.map(shown).join(", ")}, but is ${shown(value)}`);
  }
  if (schema.const !== undefined && !isEqual(schema.const, value)) {
    fail("const", `must be ${shown(schema.const)}, but is ${shown(value)}`);
  }
  if (typeof value === "number") {
    checkNumber(schema, value, fail);
  } else if (typeof value === "string") {
    const length = [...value].length;
    checkSize(schema, "minLength", "maxLength", length, "characters", fail);
    if (typeof schema.pattern === "string" && !new RegExp(schema.pattern, "u").test(value)) {
      fail("pattern", `must match ${schema.pattern}, but is ${shown(value)}`);
    }
    const format = typeof schema.format === "string" && formats ? schema.format : "";
    if (Object.hasOwn(FORMATS, format) && !FORMATS[format](value)) {
      fail("format", `must be a valid ${format}, but is ${shown(value)}`);
    }
  } else if (Array.isArray(value)) {
    checkSize(schema, "minItems", "maxItems", value.length, "items", fail);
    if (schema.uniqueItems === true) {
      const seen = new Map<string, number>();
      for (const [index, item] of value.entries()) {
        const key = canonical(item);
        const other = seen.get(key);
        if (other !== undefined) {
          fail("uniqueItems", `must have different items, but items ${other} and ${index} are equal`);
          break;
        }
        seen.set(key, index);
      }
    }
  } else if (isObject(value)) {
    checkSize(schema, "minProperties", "maxProperties", Object.keys(value).length, "properties", fail);
    const missing = list(schema.required).filter((name) => !Object.hasOwn(value, String(name)));
    if (missing.length > 0) {
      fail("required", `must have \`${missing.join("`, `")}\``);
    }
  }
}

function checkNumber(schema: JsonObject, value: number, fail: (keyword: string, message: string) => void): void {
  const bounds: [string, string, (bound: number) => boolean][] = [
    ["minimum", "at least", (bound) => value >= bound],
    ["maximum", "at most", (bound) => value <= bound],
    ["exclusiveMinimum", "greater than", (bound) => value > bound],
    ["exclusiveMaximum", "less than", (bound) => value < bound],
  ];
  for (const [keyword, words, holds] of bounds) {
    const bound = schema[keyword];
    if (typeof bound === "number" && !holds(bound)) {
      fail(keyword, `must be ${words} ${bound}, but is ${value}`);
    }
  }
  const step = schema.multipleOf;
  if (typeof step === "number" && !isMultiple(value, step)) {
    fail("multipleOf", `must be a multiple of ${step}, but is ${value}`);
  }
}

/** Compares as decimals: 0.3 is a multiple of 0.1. */
function isMultiple(value: number, step: number): boolean {
  const quotient = value / step;
  return Math.abs(quotient - Math.round(quotient)) < 1e-9 * Math.max(1, Math.abs(quotient));
}

function checkSize(
  schema: JsonObject,
  least: string,
  most: string,
  size: number,
  unit: string,
  fail: (keyword: string, message: string) => void,
): void {
  const [min, max] = [schema[least], schema[most]];
  if (typeof min === "number" && size < min) {
    fail(least, `must have at least ${min} ${unit}, but has ${size}`);
  }
  if (typeof max === "number" && size > max) {
    fail(most, `must have at most ${max} ${unit}, but has ${size}`);
  }
}

/** Checks that the values of keywords have the right types. */
function checkKeywords(schema: JsonObject, at: string): void {
  const need = (holds: boolean, message: string): void => {
    if (!holds) {
      throw new SchemaError(`${at}: ${message}`);
    }
  };
  const types = typeof schema.type === "string" ? [schema.type] : schema.type;
  if (types !== undefined) {
    const isKnown = Array.isArray(types) && types.every((type) => TYPES.includes(type as string));
    need(isKnown, `type must be one of ${TYPES.join(", ")}, or a list of them, but is ${shown(schema.type)}`);
  }
  for (const [keyword, value] of Object.entries(schema)) {
    if (/^(?:min|max)(?:Length|Items|Properties|Contains)$/.test(keyword)) {
      need(Number.isInteger(value) && (value as number) >= 0, `${keyword} must be a whole number, but is ${shown(value)}`);
    } else if (/^(?:(?:exclusive)?(?:Min|Max)imum|minimum|maximum|multipleOf)$/.test(keyword)) {
      need(typeof value === "number", `${keyword} must be a number, but is ${shown(value)}`);
    } else if (keyword === "required") {
      need(Array.isArray(value) && value.every((name) => typeof name === "string"), "required must be a list of names");
    } else if (keyword === "enum") {
      need(Array.isArray(value), "enum must be a list");
    }
  }
  for (const pattern of [schema.pattern, ...Object.keys(object(schema.patternProperties))]) {
    need(pattern === undefined || (typeof pattern === "string" && FORMATS.regex(pattern)), `${shown(pattern ?? null)} is not a valid regular expression`);
  }
}

/** Joins an `$id` with that of the schema around it. */
class Id {
  text: string;

  constructor(text: string) {
    this.text = text.replace(/#$/, "");
  }

  from(base: string): string {
    if (/^[a-z][a-z0-9+.-]*:/i.test(this.text) || base === "") {
      return this.text;
    }
    return this.text.startsWith("/")
      ? base.replace(/^([a-z]+:\/\/[^/]*).*$/i, "$1") + this.text
      : base.replace(/[^/]*$/, "") + this.text;
  }
}

function split(reference: string): [string, string?] {
  const at = reference.indexOf("#");
  return at < 0 ? [reference] : [reference.slice(0, at), reference.slice(at + 1)];
}

function schemaOf(value: Json, pointer: string, file: string): Schema {
  if (typeof value === "boolean" || isObject(value)) {
    return value;
  }
  throw new SchemaError(`${file}#${pointer}: a schema must be an object or a boolean, but is ${shown(value)}`);
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

function object(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

function isOfType(value: Json, type: string): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** Returns a text that equal values share, whatever the order of their members. */
function canonical(value: Json): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(",")}]`;
  }
  if (isObject(value)) {
    const members = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`);
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

function isEqual(a: Json, b: Json): boolean {
  return canonical(a) === canonical(b);
}

function shown(value: Json | undefined): string {
  if (value === undefined) {
    return "nothing";
  }
  const text = canonical(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

function range(least: number, most: number): string {
  return most === Infinity ? `at least ${least}` : least === most ? `${least}` : `${least} to ${most}`;
}

function merge(into: Result, from: Result): void {
  from.properties.forEach((name) => into.properties.add(name));
  from.items.forEach((index) => into.items.add(index));
}

/** How far a value is from an alternative: a wrong type or constant at its top counts most. */
function distance({ violations }: Result): number {
  const depths = violations.map(({ instance, rule }) => {
    const isTop = /\/(?:type|const|enum)$/.test(rule) ? 100 : 1;
    return isTop / (1 + instance.split("/").length);
  });
  return depths.reduce((sum, one) => sum + one, 0);
}
